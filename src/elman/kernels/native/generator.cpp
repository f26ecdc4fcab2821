// Packs a model, and lets rows write or read token after token.
#include "generator.h"

#include <omp.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "generator_run.h"

namespace {

void *zeroed(size_t bytes) {
    bytes = (bytes + 64 + 63) / 64 * 64;
    void *p = std::aligned_alloc(64, bytes);
    if (!p) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    return p;
}

ptrdiff_t bytes_of(const PackedMatrix &m) { return m.panels * m.panel_bytes; }

// Runs `work(share, shares)` on as many threads as come. One thread needs no OpenMP.
template <class Work>
void on_threads(int threads, GeneratorRun &run, const Work &work) {
    if (threads <= 1) {
        work(0, 1);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
        run.set_members(omp_get_num_threads());
        work(omp_get_thread_num(), omp_get_num_threads());
    }
}

}  // namespace

Generator::Generator(const GenerationKernels &kernels, MultiplyInt8 multiply_int8, int format)
    : kernels_(kernels), multiply_int8_(multiply_int8), format_(format) {}

PackedMatrix Generator::packed(const GivenMatrix &given, int gates, int format) {
    PackedMatrix m = {};
    if (!given.weight) return m;
    m.format = format, m.gates = gates, m.rows = given.rows, m.depth = given.depth;
    kernels_.shape(m);
    const size_t rows = (size_t)(m.panels * m.vectors * kernels_.width);
    auto take = [&](size_t bytes) {
        arrays_.emplace_back(zeroed(bytes), std::free);
        return arrays_.back().get();
    };
    m.data = (unsigned char *)take((size_t)bytes_of(m));
    m.bias = (float *)take(rows * 4), m.scales = (float *)take(rows * 4);
    m.sums = (int32_t *)take(rows * 4);
    kernels_.pack(m, given.weight, given.bias);
    return m;
}

void Generator::add_layer(const GivenLayer &given) {
    StepLayer layer = {};
    layer.equation = given.equation, layer.keeps = given.keeps, layer.couples = given.couples;
    layer.input = given.by_input.depth, layer.units = given.units, layer.output = given.output;
    layer.adds_input = given.adds_input;
    const int gates = (int)(given.by_input.rows / given.units);
    if (layers_.empty()) first_ = given.by_input;
    else layer.by_input = packed(given.by_input, gates, format_);
    const ptrdiff_t seen = given.by_state.weight ? given.by_state.rows / given.units : 1;
    layer.by_state = packed(given.by_state, (int)seen, format_);
    layer.again = packed(given.again, 1, format_);
    layer.projection = packed(given.projection, 1, format_);
    const ptrdiff_t padded = (given.units + kWidest - 1) / kWidest * kWidest;
    layer.peepholes.resize((size_t)(given.peephole_gates * padded));
    for (ptrdiff_t g = 0; g < given.peephole_gates; g++)
        std::memcpy(&layer.peepholes[g * padded], given.peepholes + g * given.units,
                    sizeof(float) * given.units);
    if (given.gain) {
        layer.gain.assign(given.gain, given.gain + given.output);
        layer.shift.assign(given.shift, given.shift + given.output);
    }
    layers_.push_back(std::move(layer));
}

void Generator::set_ends(const float *embedding, ptrdiff_t vocabulary, bool tabulates,
                         const GivenMatrix &features, const GivenMatrix &readout) {
    features_ = packed(features, 1, format_);
    readout_ = packed(readout, 1, format_);
    embedding_ = embedding;
    StepLayer &layer = layers_.front();
    const GivenMatrix first = first_;
    const int gates = (int)(first.rows / layer.units);
    layer.by_input = packed(first, gates, tabulates ? kFloat32 : format_);
    if (tabulates) fill_table(embedding, first, vocabulary);
    first_ = {};
}

// The product of each token's input with the first matrix, in float32 always.
void Generator::fill_table(const float *embedding, const GivenMatrix &first, ptrdiff_t vocabulary) {
    const PackedMatrix &m = layers_.front().by_input;
    const ptrdiff_t width = m.vectors * kernels_.width;
    table_row_ = m.panels * width;
    arrays_.emplace_back(zeroed((size_t)(vocabulary * table_row_) * 4), std::free);
    table_ = (float *)arrays_.back().get();
    for (ptrdiff_t id = 0; id < vocabulary; id++) {
        float *row = table_ + id * table_row_;
        if (embedding) {
            const float *x = embedding + id * first.depth;
            kernels_.multiply(m, {&x, nullptr, nullptr, 1}, &row, 0, m.panels);
            continue;
        }
        for (ptrdiff_t p = 0; p < m.panels; p++)  // a one-hot input takes its column
            for (ptrdiff_t j = 0; j < width; j++)
                row[p * width + j] = m.bias[p * width + j] +
                                     ((const float *)(m.data + p * m.panel_bytes))[id * width + j];
    }
}

ptrdiff_t Generator::state_size() const {
    ptrdiff_t size = 0;
    for (const StepLayer &layer : layers_)
        size += layer.output + (layer.has_memory() ? layer.units : 0);
    return size;
}

ptrdiff_t Generator::weight_bytes() const {
    ptrdiff_t bytes = bytes_of(features_) + bytes_of(readout_);
    for (const StepLayer &layer : layers_) {
        const bool reads_input = &layer != &layers_.front() || !table_;
        bytes += (reads_input ? bytes_of(layer.by_input) : table_row_ * 4) +
                 bytes_of(layer.by_state) + bytes_of(layer.again) + bytes_of(layer.projection);
    }
    return bytes;
}

int Generator::useful_threads(ptrdiff_t num_rows, int most) const {
    const ptrdiff_t useful = weight_bytes() * num_rows / (4 * kWorthSharing);
    return useful < 2 ? 1 : usable_threads((int)(useful < most ? useful : most));
}

void Generator::generate(std::vector<GenerationRow> &rows, ptrdiff_t most,
                         const std::vector<int64_t> &forbidden, const std::vector<int64_t> &stops,
                         int threads, GeneratorRun &run) const {
    std::vector<ptrdiff_t> active;
    std::vector<int64_t> ids(rows.size()), chosen(rows.size());
    auto find_active = [&](ptrdiff_t done) {
        active.clear();
        for (size_t r = 0; r < rows.size() && done < most; r++)
            if (!rows[r].ended && !rows[r].failure) active.push_back((ptrdiff_t)r);
    };
    active.reserve(rows.size());
    find_active(0);
    if (active.empty()) return;
    for (size_t r = 0; r < rows.size(); r++) {
        ids[r] = rows[r].last_id;
        run.load_state((ptrdiff_t)r, rows[r].state);
    }
    auto choose = [&](ptrdiff_t r, int share) {
        GenerationRow &row = rows[r];
        chosen[r] = choose_token(kernels_, run.logits(r), vocabulary(), forbidden, row.how,
                                 row.position, run.room(share));
    };
    auto note = [&](ptrdiff_t r) {
        GenerationRow &row = rows[r];
        if (chosen[r] < 0) {
            row.failure = chosen[r];
            return;
        }
        run.commit(r);
        ids[r] = row.last_id = chosen[r];
        row.tokens.push_back((int32_t)chosen[r]);
        for (int64_t stop : stops) row.ended |= stop == chosen[r];
    };
    on_threads(threads, run, [&](int share, int shares) {
        for (ptrdiff_t done = 0; !active.empty();) {
            run.step(active, ids.data(), true, share, shares);
            for (size_t i = share; i < active.size(); i += shares) choose(active[i], share);
            run.wait(shares);
            done++;
            if (share == 0) {
                for (ptrdiff_t r : active) note(r);
                find_active(done);
            }
            run.wait(shares);
        }
    });
    for (size_t r = 0; r < rows.size(); r++) run.store_state((ptrdiff_t)r, rows[r].state);
}

void Generator::read(std::vector<ReadingRow> &rows, int threads, GeneratorRun &run) const {
    ptrdiff_t longest = 0;
    bool predicts = false;
    for (size_t r = 0; r < rows.size(); r++) {
        longest = rows[r].steps > longest ? rows[r].steps : longest;
        predicts |= rows[r].nats != nullptr;
        run.load_state((ptrdiff_t)r, rows[r].state);
    }
    on_threads(threads, run, [&](int share, int shares) {
        std::vector<ptrdiff_t> active;
        std::vector<int64_t> ids(rows.size());
        active.reserve(rows.size());
        for (ptrdiff_t t = 0; t < longest; t++) {
            active.clear();
            for (size_t r = 0; r < rows.size(); r++)
                if (t < rows[r].steps) active.push_back((ptrdiff_t)r), ids[r] = rows[r].ids[t];
            run.step(active, ids.data(), predicts, share, shares);
            for (size_t i = share; i < active.size(); i += shares) {
                const ReadingRow &row = rows[active[i]];
                if (row.states)
                    std::memcpy(row.states + t * output_size(), run.output((ptrdiff_t)i, share),
                                sizeof(float) * output_size());
                if (row.nats)
                    row.nats[t] = surprisal_nats(kernels_, run.logits(active[i]), vocabulary(),
                                                 row.targets[t], run.room(share));
            }
            run.wait(shares);
            if (share == 0)
                for (ptrdiff_t r : active) run.commit(r);
            run.wait(shares);
        }
    });
    for (size_t r = 0; r < rows.size(); r++) run.store_state((ptrdiff_t)r, rows[r].state);
}
