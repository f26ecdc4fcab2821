// The memory of one call of a generator, and the steps that its threads take together.
#pragma once
#include "generator.h"
#include "teams.h"

class GeneratorRun {
  public:
    GeneratorRun(const Generator &generator, ptrdiff_t num_rows, int threads);

    void load_state(ptrdiff_t row, const float *state);
    void store_state(ptrdiff_t row, float *state) const;
    void commit(ptrdiff_t row) { current_[row] ^= 1; }  // what `step` wrote becomes the state

    // All threads call this together; `active` are the rows that step, ids by row. The new states are
    // complete when it returns, and the logits too where asked for.
    void step(const std::vector<ptrdiff_t> &active, const int64_t *ids, bool with_logits, int share,
              int shares);
    float *logits(ptrdiff_t row) { return rows_[row].logits; }
    // The last layer's output of a row, as its readout sees it, within `share`'s own memory.
    const float *output(ptrdiff_t place, int share) const { return own_[share].x[place]; }
    ChoiceRoom &room(int share) { return own_[share].room; }
    void set_members(int shares) { barrier_.members = shares; }
    void wait(int shares) {
        if (shares > 1) barrier_.wait();
    }

  private:
    struct Cell {
        float *h[2], *c[2];
    };
    struct Row {
        std::vector<Cell> cells;
        float *input, *state, *again, *reset, *update, *hidden, *features, *logits;
    };
    struct Own {  // of one thread
        explicit Own(ptrdiff_t vocabulary) : room(vocabulary) {}
        std::vector<const float *> x, from;
        std::vector<float *> to, joined;
        std::vector<uint8_t *> steps;
        std::vector<const uint8_t *> const_steps;
        std::vector<float> worth, spare;
        ChoiceRoom room;
    };
    // [begin, end) of units; all of it where the work is too small to be shared.
    struct Units {
        ptrdiff_t begin, end;
    };

    float *floats(ptrdiff_t size);
    Units share_of(ptrdiff_t units, ptrdiff_t bytes, ptrdiff_t grain, int share, int shares) const;
    // own.to[i] = the share's panels of the product with own.from[i], for `count` rows.
    void multiply(const PackedMatrix &m, ptrdiff_t count, Units units, Own &own) const;
    void step_layer(size_t number, const std::vector<ptrdiff_t> &active, const int64_t *ids,
                    int share, int shares);
    void join(size_t number, const std::vector<ptrdiff_t> &active, Own &own);
    UnitStep unit_step(const StepLayer &layer, size_t number, ptrdiff_t row) const;

    const Generator &g_;
    std::vector<Row> rows_;
    std::vector<Own> own_;
    std::vector<int> current_;
    std::vector<std::unique_ptr<void, void (*)(void *)>> arrays_;
    Barrier barrier_;
};
