// One step of all layers and the readout, shared by threads: each takes some units of every product.
#include "generator_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr double kLayerNormEpsilon = 1e-5;  // torch's
constexpr ptrdiff_t kPanelUnits = 4 * kWidest;

ptrdiff_t padded(ptrdiff_t n) { return (n + kPanelUnits - 1) / kPanelUnits * kPanelUnits; }

// Writes (x − mean) / deviation · gain + shift.
void normalise(const float *x, const StepLayer &layer, float *to) {
    const ptrdiff_t size = layer.output;
    double sum = 0, squares = 0;
    for (ptrdiff_t j = 0; j < size; j++) sum += (double)x[j];
    const double mean = sum / (double)size;
    for (ptrdiff_t j = 0; j < size; j++) squares += ((double)x[j] - mean) * ((double)x[j] - mean);
    const double scale = 1 / std::sqrt(squares / (double)size + kLayerNormEpsilon);
    for (ptrdiff_t j = 0; j < size; j++)
        to[j] = (float)(((double)x[j] - mean) * scale) * layer.gain[j] + layer.shift[j];
}

}  // namespace

float *GeneratorRun::floats(ptrdiff_t size) {
    const size_t bytes = ((size_t)size * 4 + 127) / 64 * 64;
    void *p = std::aligned_alloc(64, bytes);
    if (!p) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    arrays_.emplace_back(p, std::free);
    return (float *)p;
}

GeneratorRun::GeneratorRun(const Generator &generator, ptrdiff_t num_rows, int threads)
    : g_(generator), rows_((size_t)num_rows), current_((size_t)num_rows) {
    ptrdiff_t units = 1, gates = 1, width = 1;
    for (const StepLayer &layer : g_.layers_) {
        units = std::max(units, padded(layer.units));
        gates = std::max({gates, padded(layer.by_input.rows) + 4 * kPanelUnits,
                          padded(layer.by_state.rows) + 4 * kPanelUnits});
        width = std::max({width, padded(layer.input), padded(layer.output), padded(layer.units)});
    }
    width = std::max(width, padded(g_.readout_.depth));
    for (Row &row : rows_) {
        for (const StepLayer &layer : g_.layers_) {
            Cell cell = {};
            for (int side = 0; side < 2; side++) {
                cell.h[side] = floats(std::max(padded(layer.output), padded(layer.units)));
                cell.c[side] = layer.has_memory() ? floats(padded(layer.units)) : nullptr;
            }
            row.cells.push_back(cell);
        }
        row.input = floats(gates), row.state = floats(gates), row.again = floats(units);
        row.reset = floats(units), row.update = floats(units), row.hidden = floats(units);
        row.features = floats(width), row.logits = floats(padded(g_.readout_.rows));
    }
    for (int share = 0; share < threads; share++) {
        own_.emplace_back(g_.readout_.rows);
        Own &own = own_.back();
        own.x.resize(num_rows), own.from.resize(num_rows), own.to.resize(num_rows);
        own.const_steps.resize(num_rows), own.worth.resize(num_rows), own.spare.resize(width);
        for (ptrdiff_t r = 0; r < num_rows; r++) {
            own.joined.push_back(floats(width));
            own.steps.push_back((uint8_t *)floats(width / 4 + kWidest));
            own.const_steps[r] = own.steps[r];
        }
    }
}

void GeneratorRun::load_state(ptrdiff_t r, const float *state) {
    for (size_t l = 0; l < g_.layers_.size(); l++) {
        const StepLayer &layer = g_.layers_[l];
        const Cell &cell = rows_[r].cells[l];
        std::memcpy(cell.h[current_[r]], state, sizeof(float) * layer.output);
        state += layer.output;
        if (!layer.has_memory()) continue;
        std::memcpy(cell.c[current_[r]], state, sizeof(float) * layer.units);
        state += layer.units;
    }
}

void GeneratorRun::store_state(ptrdiff_t r, float *state) const {
    for (size_t l = 0; l < g_.layers_.size(); l++) {
        const StepLayer &layer = g_.layers_[l];
        const Cell &cell = rows_[r].cells[l];
        std::memcpy(state, cell.h[current_[r]], sizeof(float) * layer.output);
        state += layer.output;
        if (!layer.has_memory()) continue;
        std::memcpy(state, cell.c[current_[r]], sizeof(float) * layer.units);
        state += layer.units;
    }
}

GeneratorRun::Units GeneratorRun::share_of(ptrdiff_t units, ptrdiff_t bytes, ptrdiff_t grain,
                                           int share, int shares) const {
    const ptrdiff_t grains = (units + grain - 1) / grain;
    const ptrdiff_t useful = std::max<ptrdiff_t>(1, std::min({grains, bytes / kWorthSharing + 1,
                                                              (ptrdiff_t)shares}));
    if (share >= useful) return {0, 0};
    return {grains * share / useful * grain, grains * (share + 1) / useful * grain};
}

void GeneratorRun::multiply(const PackedMatrix &m, ptrdiff_t count, Units units, Own &own) const {
    const ptrdiff_t across = (m.gates > 1 ? 1 : m.vectors) * g_.kernels_.width;
    const ptrdiff_t begin = units.begin / across, end = std::min(units.end / across, m.panels);
    if (begin >= end) return;
    Operands x = {own.from.data(), own.const_steps.data(), own.worth.data(), count};
    if (m.format != kInt8) {
        g_.kernels_.multiply(m, x, own.to.data(), begin, end);
        return;
    }
    for (ptrdiff_t i = 0; i < count; i++)
        g_.kernels_.quantise(own.from[i], m.depth, own.steps[i], &own.worth[i]);
    g_.multiply_int8_(m, x, own.to.data(), begin, end);
}

UnitStep GeneratorRun::unit_step(const StepLayer &layer, size_t number, ptrdiff_t r) const {
    const Row &row = rows_[r];
    const Cell &cell = row.cells[number];
    const int now = current_[r], next = now ^ 1;
    UnitStep s = {};
    s.equation = layer.equation, s.keeps = layer.keeps, s.couples = layer.couples;
    s.units = (layer.units + kWidest - 1) / kWidest * kWidest;
    s.input = row.input, s.state = row.state, s.again = row.again;
    s.h = cell.h[now], s.c = cell.c[now];
    s.h_next = layer.projection.data ? row.hidden : cell.h[next], s.c_next = cell.c[next];
    s.reset = row.reset, s.update = row.update;
    s.peepholes = layer.peepholes.empty() ? nullptr : layer.peepholes.data();
    return s;
}

// own.x are the inputs of the layer; where the layer below wrote them, every thread sees them.
void GeneratorRun::step_layer(size_t number, const std::vector<ptrdiff_t> &active,
                              const int64_t *ids, int share, int shares) {
    const StepLayer &layer = g_.layers_[number];
    Own &own = own_[share];
    const ptrdiff_t n = (ptrdiff_t)active.size(), width = g_.kernels_.width;
    const bool looks_up = number == 0 && g_.table_;
    const auto is_fine = [](const PackedMatrix &m) { return !m.data || m.gates > 1; };
    const ptrdiff_t grain =
        is_fine(layer.by_input) && is_fine(layer.by_state) ? (ptrdiff_t)kWidest : kPanelUnits;
    const ptrdiff_t bytes = n * ((looks_up ? 0 : layer.by_input.panels * layer.by_input.panel_bytes) +
                                 layer.by_state.panels * layer.by_state.panel_bytes);
    const Units units = share_of(layer.units, bytes, grain, share, shares);
    const ptrdiff_t stop = std::min(units.end, (layer.units + width - 1) / width * width);
    if (!looks_up) {
        for (ptrdiff_t i = 0; i < n; i++)
            own.from[i] = own.x[i], own.to[i] = rows_[active[i]].input;
        multiply(layer.by_input, n, units, own);
    }
    if (layer.by_state.data) {
        for (ptrdiff_t i = 0; i < n; i++) {
            const Row &row = rows_[active[i]];
            own.from[i] = row.cells[number].h[current_[active[i]]], own.to[i] = row.state;
        }
        multiply(layer.by_state, n, units, own);
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        UnitStep s = unit_step(layer, number, active[i]);
        if (looks_up) s.input = g_.table_ + ids[active[i]] * g_.table_row_;
        g_.kernels_.first_part(s, units.begin, stop);
    }
    if (layer.again.data) {
        wait(shares);
        for (ptrdiff_t i = 0; i < n; i++)
            own.from[i] = rows_[active[i]].reset, own.to[i] = rows_[active[i]].again;
        multiply(layer.again, n, units, own);
        for (ptrdiff_t i = 0; i < n; i++) {
            UnitStep s = unit_step(layer, number, active[i]);
            if (looks_up) s.input = g_.table_ + ids[active[i]] * g_.table_row_;
            g_.kernels_.second_part(s, units.begin, stop);
        }
    }
    if (layer.projection.data) {
        wait(shares);
        for (ptrdiff_t i = 0; i < n; i++) {
            const Row &row = rows_[active[i]];
            own.from[i] = row.hidden, own.to[i] = row.cells[number].h[current_[active[i]] ^ 1];
        }
        const PackedMatrix &m = layer.projection;
        multiply(m, n, share_of(m.rows, n * m.panels * m.panel_bytes, kPanelUnits, share, shares),
                 own);
    }
    wait(shares);
    join(number, active, own);
}

// Every thread makes the next layer's input for itself: that is quicker than to wait for another.
void GeneratorRun::join(size_t number, const std::vector<ptrdiff_t> &active, Own &own) {
    const StepLayer &layer = g_.layers_[number];
    const bool adds = layer.adds_input && layer.input == layer.output && (number > 0 || g_.embedding_);
    for (size_t i = 0; i < active.size(); i++) {
        const float *written = rows_[active[i]].cells[number].h[current_[active[i]] ^ 1];
        float *joined = own.joined[i];
        if (layer.gain.empty() && !adds) {
            own.x[i] = written;
            continue;
        }
        if (adds && layer.gain.empty())
            for (ptrdiff_t j = 0; j < layer.output; j++) joined[j] = written[j] + own.x[i][j];
        if (!layer.gain.empty()) {
            if (own.x[i] == joined && adds) {  // the input stands where the output goes
                std::memcpy(own.spare.data(), joined, sizeof(float) * layer.output);
                own.x[i] = own.spare.data();
            }
            normalise(written, layer, joined);
            for (ptrdiff_t j = 0; adds && j < layer.output; j++) joined[j] += own.x[i][j];
        }
        own.x[i] = joined;
    }
}

void GeneratorRun::step(const std::vector<ptrdiff_t> &active, const int64_t *ids, bool with_logits,
                        int share, int shares) {
    Own &own = own_[share];
    const ptrdiff_t n = (ptrdiff_t)active.size();
    if (g_.embedding_)
        for (ptrdiff_t i = 0; i < n; i++)
            own.x[i] = g_.embedding_ + ids[active[i]] * g_.layers_.front().input;
    for (size_t number = 0; number < g_.layers_.size(); number++)
        step_layer(number, active, ids, share, shares);
    if (!with_logits) return;
    for (ptrdiff_t i = 0; i < n; i++) own.from[i] = own.x[i];
    const PackedMatrix &f = g_.features_, &m = g_.readout_;
    if (f.data) {
        for (ptrdiff_t i = 0; i < n; i++) own.to[i] = rows_[active[i]].features;
        multiply(f, n, share_of(f.rows, n * f.panels * f.panel_bytes, kPanelUnits, share, shares),
                 own);
        wait(shares);
        for (ptrdiff_t i = 0; i < n; i++) own.from[i] = rows_[active[i]].features;
    }
    for (ptrdiff_t i = 0; i < n; i++) own.to[i] = rows_[active[i]].logits;
    multiply(m, n, share_of(m.rows, n * m.panels * m.panel_bytes, kPanelUnits, share, shares), own);
    wait(shares);
}
