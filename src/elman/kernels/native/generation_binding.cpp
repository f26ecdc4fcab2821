// Generation from Python: checks every array and id, lets Python run between slices of tokens.
#include <cmath>
#include <cstring>

#include "binding.h"
#include "generator_run.h"

#ifdef ELMAN_HAVE_X86
extern const MultiplyInt8 multiply_int8_avx512_vnni;
#endif

namespace {

MultiplyInt8 multiply_int8_of(const Kernels &kernels, bool uses_vnni) {
#ifdef ELMAN_HAVE_X86
    if (&kernels == &kernels_avx512 && uses_vnni && __builtin_cpu_supports("avx512vnni"))
        return multiply_int8_avx512_vnni;
#endif
    return kernels.generation.multiply;
}

using Ids1 = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids2 = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Words1 = nb::ndarray<uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags1 = nb::ndarray<bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles2 = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Tokens2 = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr ptrdiff_t kStepsAtOnce = 64;  // between two looks at Python's signals
constexpr const char *kEquations[] = {"tanh", "relu", "identity", "gru/after", "gru/before",
                                      "lstm", "mgu",  "mingru",   "minlstm"};
constexpr int kInputGates[] = {1, 1, 1, 3, 3, 4, 2, 2, 3};
constexpr int kStateGates[] = {1, 1, 1, 3, 2, 4, 1, 0, 0};

struct BoundGenerator {
    Generator generator;
    std::optional<Array2> embedding;     // must stay
    std::optional<Array2> first_weight;  // must stay until the ends are set, as its bias
    std::optional<Array1> first_bias;
    ptrdiff_t read = -1;              // what the next layer reads; -1: none added yet
    bool is_ready = false;
};

GivenMatrix given(const std::optional<Array2> &weight, const std::optional<Array1> &bias,
                  ptrdiff_t rows, ptrdiff_t depth, const char *what) {
    if (!weight) {
        require(rows == 0 && !bias, what);
        return {};
    }
    require_shape(*weight, {rows, depth}, what);
    if (bias) require_shape(*bias, {rows}, what);
    return {weight->data(), bias ? bias->data() : nullptr, rows, depth};
}

int equation_of(const std::string &name) {
    for (int e = 0; e <= kStepMinLstm; e++)
        if (name == kEquations[e]) return e;
    throw std::invalid_argument("equation " + name + " is unknown");
}

void add_layer(BoundGenerator &self, const std::string &equation, bool keeps, bool couples,
               Array2 weight_ih, std::optional<Array1> bias_ih, std::optional<Array2> weight_hh,
               std::optional<Array1> bias_hh, std::optional<Array2> again,
               std::optional<Array1> bias_again, std::optional<Array2> projection,
               std::optional<Array2> peepholes, std::optional<Array2> norm, bool adds_input) {
    require(!self.is_ready, "layers come before the readout");
    GivenLayer layer = {};
    layer.equation = equation_of(equation), layer.keeps = keeps;
    layer.couples = couples && layer.equation == kStepLstm, layer.adds_input = adds_input;
    const bool needs_again = layer.equation == kStepGruBefore || layer.equation == kStepMgu;
    const ptrdiff_t gates = kInputGates[layer.equation] - layer.couples;
    const ptrdiff_t seen = kStateGates[layer.equation] - layer.couples;
    const ptrdiff_t rows = weight_ih.shape(0), input = weight_ih.shape(1);
    require(input >= 1 && rows >= 1 && rows % gates == 0, "weight_ih must be [gates H, input]");
    require(self.read < 0 || self.read == input, "a layer must read what the one below writes");
    layer.units = rows / gates;
    layer.output = projection ? (ptrdiff_t)projection->shape(0) : layer.units;
    require(layer.output >= 1, "a projection must have a row");
    layer.by_input = given(weight_ih, bias_ih, rows, input, "bias_ih must be [gates H]");
    layer.by_state = given(weight_hh, bias_hh, seen * layer.units, layer.output,
                           "weight_hh must be [recurrent gates H, output], bias_hh its rows");
    layer.again = given(again, bias_again, needs_again * layer.units, layer.units,
                        "again must be [H, H] where a gate acts before the product, and only there");
    layer.projection = given(projection, {}, projection ? layer.output : 0, layer.units,
                             "projection must be [output, H]");
    require(!projection || layer.equation == kStepLstm, "an LSTM alone has a projection");
    if (peepholes) {
        layer.peephole_gates = 3 - layer.couples;
        require(layer.equation == kStepLstm, "an LSTM alone has peepholes");
        require_shape(*peepholes, {layer.peephole_gates, layer.units}, "peepholes must be [gates, H]");
        layer.peepholes = peepholes->data();
    }
    if (norm) {
        require_shape(*norm, {2, layer.output}, "norm must be [2, output]");
        layer.gain = norm->data(), layer.shift = norm->data() + layer.output;
    }
    if (self.read < 0) self.first_weight = weight_ih, self.first_bias = bias_ih;
    self.generator.add_layer(layer);
    self.read = layer.output;
}

void set_ends(BoundGenerator &self, std::optional<Array2> embedding, bool tabulates,
              std::optional<Array2> features, Array2 readout, Array1 bias) {
    require(self.read >= 1 && !self.is_ready, "the ends come once, after the layers");
    const ptrdiff_t vocabulary = readout.shape(0), depth = readout.shape(1);
    const ptrdiff_t input = self.generator.input_size();
    require(vocabulary >= 1 && vocabulary < (ptrdiff_t)1 << 31, "a vocabulary must have an id");
    if (embedding) require_shape(*embedding, {vocabulary, input}, "embedding must be [V, input]");
    else require(input == vocabulary && tabulates, "one-hot inputs are [V], and tabulated");
    const GivenMatrix project = given(features, {}, features ? depth : 0, self.read,
                                      "features must be [readout's columns, output]");
    require(features || depth == self.read, "the readout must read what the last layer writes");
    const GivenMatrix read = given(readout, bias, vocabulary, depth, "bias must be [V]");
    self.embedding = embedding;
    self.generator.set_ends(embedding ? embedding->data() : nullptr, vocabulary, tabulates, project,
                            read);
    self.first_weight.reset(), self.first_bias.reset();
    self.is_ready = true;
}

void require_ids(const int64_t *ids, size_t count, ptrdiff_t vocabulary) {
    for (size_t i = 0; i < count; i++)
        require(ids[i] >= 0 && ids[i] < vocabulary, "an id is outside the vocabulary");
}

ptrdiff_t checked_rows(const BoundGenerator &self, const Array2 &state, int num_threads) {
    require(self.is_ready, "the generator has no readout yet");
    require((ptrdiff_t)state.shape(1) == self.generator.state_size(), "state must be [B, state_size]");
    require(num_threads >= 1, "num_threads must be at least 1");
    return (ptrdiff_t)state.shape(0);
}

std::vector<GenerationRow> new_rows(ptrdiff_t count, const Array2 &state, const Doubles2 &how,
                                    const Ids1 &top_ks, const Words1 &keys) {
    std::vector<GenerationRow> rows((size_t)count);
    for (ptrdiff_t r = 0; r < count; r++) {
        const double *one = how.data() + 3 * r;
        require(std::isfinite(one[0]) && one[0] >= 0, "a temperature must be finite and >= 0");
        require(one[1] > 0 && one[1] <= 1, "top_p must be within 0 and 1, and not 0");
        require(one[2] >= 0 && one[2] <= 1, "min_p must be within 0 and 1");
        require(top_ks.data()[r] >= 0, "top_k must be >= 0");
        rows[r].how = {one[0], one[1], one[2], top_ks.data()[r], keys.data()[r]};
        rows[r].state = state.data() + r * state.shape(1);
    }
    return rows;
}

// One call of `generate`: `first` is the column that the next token goes to.
struct Writing {
    Ids1 last_ids, counts, failures;
    Words1 positions;
    Flags1 ended;
    Tokens2 tokens;

    // The ids are Python's to change between two calls of its function.
    void take(std::vector<GenerationRow> &rows, ptrdiff_t most, ptrdiff_t vocabulary) const {
        require_ids(last_ids.data(), rows.size(), vocabulary);
        for (size_t r = 0; r < rows.size(); r++) {
            rows[r].last_id = last_ids.data()[r], rows[r].position = positions.data()[r];
            rows[r].ended = ended.data()[r];
            rows[r].tokens.clear(), rows[r].tokens.reserve((size_t)most);
        }
    }

    bool give(const std::vector<GenerationRow> &rows, ptrdiff_t first) const {
        bool goes_on = false, failed = false;
        for (size_t r = 0; r < rows.size(); r++) {
            const GenerationRow &row = rows[r];
            last_ids.data()[r] = row.last_id, positions.data()[r] = row.position;
            ended.data()[r] = row.ended, failures.data()[r] = row.failure;
            counts.data()[r] += (int64_t)row.tokens.size();
            if (!row.tokens.empty())
                std::memcpy(tokens.data() + r * tokens.shape(1) + first, row.tokens.data(),
                            row.tokens.size() * sizeof(int32_t));
            failed |= row.failure != 0;
            goes_on |= !row.ended;
        }
        return goes_on && !failed;
    }
};

// As Python's `if` takes it.
bool is_true(const nb::object &answer) {
    const int truth = PyObject_IsTrue(answer.ptr());
    if (truth < 0) throw nb::python_error();
    return truth != 0;
}

void generate(const BoundGenerator &self, Array2 state, const Writing &writing, Doubles2 how,
              Ids1 top_ks, Words1 keys, Ids1 forbidden, Ids1 stops, nb::object callback,
              ptrdiff_t every, int num_threads) {
    const ptrdiff_t count = checked_rows(self, state, num_threads);
    const ptrdiff_t vocabulary = self.generator.vocabulary(), most = writing.tokens.shape(1);
    require_shape(writing.last_ids, {count}, "last_ids must be [B]");
    require_shape(writing.counts, {count}, "counts must be [B]");
    require_shape(writing.failures, {count}, "failures must be [B]");
    require_shape(writing.positions, {count}, "positions must be [B]");
    require_shape(writing.ended, {count}, "ended must be [B]");
    require((ptrdiff_t)writing.tokens.shape(0) == count, "tokens must be [B, N]");
    require_shape(how, {count, 3}, "how must be [B, 3]");
    require_shape(top_ks, {count}, "top_ks must be [B]");
    require_shape(keys, {count}, "keys must be [B]");
    require(every >= 1, "every must be at least 1");
    require_ids(forbidden.data(), forbidden.shape(0), vocabulary);
    require_ids(stops.data(), stops.shape(0), vocabulary);
    const std::vector<int64_t> never(forbidden.data(), forbidden.data() + forbidden.shape(0));
    const std::vector<int64_t> ends(stops.data(), stops.data() + stops.shape(0));
    std::vector<GenerationRow> rows = new_rows(count, state, how, top_ks, keys);
    const int threads = self.generator.useful_threads(count, num_threads);
    GeneratorRun run(self.generator, count, threads);
    for (ptrdiff_t done = 0; count > 0 && done < most;) {
        const ptrdiff_t stop = done + every < most ? done + every : most;
        writing.take(rows, stop - done, vocabulary);
        {
            nb::gil_scoped_release free;
            self.generator.generate(rows, stop - done, never, ends, threads, run);
        }
        const bool goes_on = writing.give(rows, done);
        const bool is_enough = !callback.is_none() && is_true(callback(done, stop));
        if (PyErr_CheckSignals()) throw nb::python_error();
        if (is_enough || !goes_on) return;
        done = stop;
    }
}

void read_ids(const BoundGenerator &self, Array2 state, Ids2 ids, Ids1 lengths,
          std::optional<Ids2> targets, std::optional<Array3> states, std::optional<Doubles2> nats,
          int num_threads) {
    const ptrdiff_t count = checked_rows(self, state, num_threads), steps = ids.shape(1);
    const ptrdiff_t output = self.generator.output_size(), vocabulary = self.generator.vocabulary();
    require((ptrdiff_t)ids.shape(0) == count, "ids must be [B, T]");
    require_shape(lengths, {count}, "lengths must be [B]");
    require(targets.has_value() == nats.has_value(), "targets and nats come together");
    if (targets) require_shape(*targets, {count, steps}, "targets must be [B, T]");
    if (nats) require_shape(*nats, {count, steps}, "nats must be [B, T]");
    if (states) require_shape(*states, {count, steps, output}, "states must be [B, T, output]");
    for (ptrdiff_t r = 0; r < count; r++) {
        const int64_t length = lengths.data()[r];
        require(length >= 0 && length <= steps, "lengths must be within 0 and T");
        require_ids(ids.data() + r * steps, (size_t)length, vocabulary);
        if (targets) require_ids(targets->data() + r * steps, (size_t)length, vocabulary);
    }
    const int threads = self.generator.useful_threads(count, num_threads);
    GeneratorRun run(self.generator, count, threads);
    for (ptrdiff_t first = 0; count > 0 && first < steps; first += kStepsAtOnce) {
        std::vector<ReadingRow> rows;
        for (ptrdiff_t r = 0; r < count; r++) {
            ptrdiff_t left = (ptrdiff_t)lengths.data()[r] - first;
            left = left < 0 ? 0 : left < kStepsAtOnce ? left : kStepsAtOnce;
            const ptrdiff_t at = r * steps + first;
            rows.push_back({state.data() + r * state.shape(1), ids.data() + at,
                            targets ? targets->data() + at : nullptr, left,
                            states ? states->data() + at * output : nullptr,
                            nats ? nats->data() + at : nullptr});
        }
        {
            nb::gil_scoped_release free;
            self.generator.read(rows, threads, run);
        }
        if (PyErr_CheckSignals()) throw nb::python_error();
    }
}

// Reads `numbers` again and again in this thread.
float sweep(Array1 numbers, int repeats, const std::string &level) {
    const Kernels &kernels = kernels_of(level);
    float sum = 0;
    for (int i = 0; i < repeats; i++) sum += kernels.generation.sweep(numbers.data(), numbers.shape(0));
    return sum;
}

}  // namespace

void bind_generation(nb::module_ &m) {
    nb::class_<BoundGenerator>(m, "Generator")
        .def("__init__",
             [](BoundGenerator *self, int format, const std::string &level, bool uses_vnni) {
                 require(format >= kFloat32 && format <= kInt8, "format must be 0, 1 or 2");
                 const Kernels &kernels = kernels_of(level);
                 new (self) BoundGenerator{
                     Generator(kernels.generation, multiply_int8_of(kernels, uses_vnni), format), {}, {}, {}};
             },
             nb::arg("format"), nb::arg("level") = "auto", nb::arg("uses_vnni") = true)
        .def("add_layer", &add_layer, nb::arg("equation"), nb::arg("keeps"), nb::arg("couples"),
             nb::arg("weight_ih").noconvert(), nb::arg("bias_ih").noconvert().none(),
             nb::arg("weight_hh").noconvert().none(), nb::arg("bias_hh").noconvert().none(),
             nb::arg("again").noconvert().none(), nb::arg("bias_again").noconvert().none(),
             nb::arg("projection").noconvert().none(), nb::arg("peepholes").noconvert().none(),
             nb::arg("norm").noconvert().none(), nb::arg("adds_input"))
        .def("set_ends", &set_ends, nb::arg("embedding").noconvert().none(), nb::arg("tabulates"),
             nb::arg("features").noconvert().none(), nb::arg("readout").noconvert(),
             nb::arg("bias").noconvert())
        .def_prop_ro("state_size", [](const BoundGenerator &g) { return g.generator.state_size(); })
        .def_prop_ro("weight_bytes", [](const BoundGenerator &g) { return g.generator.weight_bytes(); })
        .def("read", &read_ids, nb::arg("state").noconvert(), nb::arg("ids").noconvert(),
             nb::arg("lengths").noconvert(), nb::arg("targets").noconvert().none(),
             nb::arg("states").noconvert().none(), nb::arg("nats").noconvert().none(),
             nb::arg("num_threads"))
        .def("generate",
             [](const BoundGenerator &self, Array2 state, Ids1 last_ids, Words1 positions,
                Flags1 ended, Tokens2 tokens, Ids1 counts, Ids1 failures, Doubles2 how, Ids1 top_ks,
                Words1 keys, Ids1 forbidden, Ids1 stops, nb::object callback, ptrdiff_t every,
                int num_threads) {
                 generate(self, state, {last_ids, counts, failures, positions, ended, tokens}, how,
                          top_ks, keys, forbidden, stops, callback, every, num_threads);
             },
             nb::arg("state").noconvert(), nb::arg("last_ids").noconvert(),
             nb::arg("positions").noconvert(), nb::arg("ended").noconvert(),
             nb::arg("tokens").noconvert(), nb::arg("counts").noconvert(),
             nb::arg("failures").noconvert(), nb::arg("how").noconvert(),
             nb::arg("top_ks").noconvert(), nb::arg("keys").noconvert(),
             nb::arg("forbidden").noconvert(), nb::arg("stops").noconvert(),
             nb::arg("callback").none(), nb::arg("every"), nb::arg("num_threads"));
    m.def("sweep", &sweep, nb::arg("numbers").noconvert(), nb::arg("repeats"), nb::arg("level") = "auto",
          nb::call_guard<nb::gil_scoped_release>());
    m.def("uniform", &uniform_at, nb::arg("key"), nb::arg("position"));
}
