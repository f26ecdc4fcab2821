// A recurrent language model packed for generation, and its steps for rows that know nothing of each
// other. Nothing here knows of Python; nothing of a request is kept.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "generation_choice.h"

// Bytes of weights that one thread reads by itself: about what takes a core as long as two barriers.
constexpr ptrdiff_t kWorthSharing = 1 << 15;

// One matrix as it is given, C-contiguous [rows, depth]; weight null: there is none.
struct GivenMatrix {
    const float *weight, *bias;
    ptrdiff_t rows, depth;
};

// One layer as it is given. `again` are the rows of a gate that acts before the product.
struct GivenLayer {
    int equation, keeps, couples;
    ptrdiff_t units, output;
    GivenMatrix by_input, by_state, again, projection;
    const float *peepholes;     // [peephole gates, units], null: none
    ptrdiff_t peephole_gates;
    const float *gain, *shift;  // of the normalisation of the output [output], null: none
    bool adds_input;
};

struct StepLayer {
    int equation, keeps, couples;
    ptrdiff_t input, units, output;
    PackedMatrix by_input, by_state, again, projection;
    std::vector<float> peepholes, gain, shift;
    bool adds_input;
    bool has_memory() const { return equation == kStepLstm; }
};

// What one row is between two tokens, and how its next ones are chosen.
struct GenerationRow {
    float *state;  // [state_size]: each layer's h, and c where it has one
    int64_t last_id;
    uint64_t position;
    Choosing how;
    bool ended;
    int64_t failure;        // 0, or a ChoiceFailure
    std::vector<int32_t> tokens;
};

// Steps whose inputs are given: ids [steps] after `state`.
struct ReadingRow {
    float *state;
    const int64_t *ids, *targets;  // targets null: no surprisals
    ptrdiff_t steps;
    float *states;  // [steps, output] or null
    double *nats;   // [steps] or null
};

class GeneratorRun;

class Generator {
  public:
    Generator(const GenerationKernels &kernels, MultiplyInt8 multiply_int8, int format);
    Generator(Generator &&) = default;
    Generator(const Generator &) = delete;
    // The arrays are copied, but for the input's of the first layer, which must stay until the ends
    // are set, and `embedding` [vocabulary, input], which must stay; null: the inputs are one-hot.
    // `tabulates`: the first product of each token is made now.
    void add_layer(const GivenLayer &layer);
    void set_ends(const float *embedding, ptrdiff_t vocabulary, bool tabulates,
                  const GivenMatrix &features, const GivenMatrix &readout);

    ptrdiff_t state_size() const;
    ptrdiff_t input_size() const { return layers_.front().input; }
    ptrdiff_t vocabulary() const { return readout_.rows; }
    ptrdiff_t output_size() const { return layers_.back().output; }
    ptrdiff_t weight_bytes() const;  // read for each token
    int useful_threads(ptrdiff_t num_rows, int most) const;

    // Each row writes up to `most` tokens, fewer where it ends; rows that failed or ended stand still.
    void generate(std::vector<GenerationRow> &rows, ptrdiff_t most,
                  const std::vector<int64_t> &forbidden, const std::vector<int64_t> &stops,
                  int threads, GeneratorRun &run) const;
    void read(std::vector<ReadingRow> &rows, int threads, GeneratorRun &run) const;

  private:
    friend class GeneratorRun;
    PackedMatrix packed(const GivenMatrix &given, int gates, int format);
    void fill_table(const float *embedding, const GivenMatrix &first, ptrdiff_t vocabulary);

    const GenerationKernels &kernels_;
    MultiplyInt8 multiply_int8_;
    int format_;
    std::vector<StepLayer> layers_;
    GivenMatrix first_ = {};  // of the first layer, until the ends are set
    std::vector<std::unique_ptr<void, void (*)(void *)>> arrays_;
    PackedMatrix features_ = {}, readout_ = {};
    const float *embedding_ = nullptr;
    float *table_ = nullptr;  // [vocabulary, panels of the first product] with its bias
    ptrdiff_t table_row_ = 0;
};
