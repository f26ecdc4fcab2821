// Recurrences from Python: checks sizes and lengths, deals rows and units to threads. Arrays come as
// addresses, whose types and shapes `elman.kernels.native_sweep` has checked: a conversion by DLPack
// costs more than a step of a small network.
#include <omp.h>

#include <algorithm>
#include <vector>

#include "binding.h"
#include "teams.h"

namespace {

int cell_of(const std::string &name) {
    const char *const names[] = {"tanh", "relu", "identity", "gru/after", "gru/before", "lstm"};
    for (int cell = kTanh; cell <= kLstm; cell++)
        if (name == names[cell]) return cell;
    throw std::invalid_argument("cell must be tanh, relu, identity, gru/after, gru/before or lstm");
}

// The rows, longest first. `lengths`: [B] or null where all rows have T steps.
std::vector<Row> rows_of(ptrdiff_t B, ptrdiff_t T, const int64_t *lengths, bool backward_in_time) {
    std::vector<Row> rows((size_t)B);
    ptrdiff_t packed = 0;
    for (ptrdiff_t i = 0; i < B; i++) {
        const ptrdiff_t length = lengths ? (ptrdiff_t)lengths[i] : T;
        require(length >= 0 && length <= T, "lengths must be from 0 to T");
        const ptrdiff_t start = backward_in_time && length ? length - 1 : 0;
        rows[(size_t)i] = {i, length, packed + start, i * T + start};
        packed += length;
    }
    if (lengths)
        std::stable_sort(rows.begin(), rows.end(),
                         [](const Row &a, const Row &b) { return a.length > b.length; });
    return rows;
}

// How many threads share the same rows and split the units: with fewer rows than threads, those that
// would have no row otherwise, where a step is long enough.
int units_for(const Recurrence &p, ptrdiff_t B, int threads) {
    const ptrdiff_t gates = p.cell == kLstm ? 4 : p.cell >= kGruAfter ? 3 : 1;
    const ptrdiff_t weights = gates * p.H * p.H;
    const ptrdiff_t least = 32768;  // weights; with fewer a step is too short to wait for others
    if (threads == 1 || weights < least) return 1;
    if (B < threads) return (int)(threads / B);
    return 1;
}

void run(Recurrence &p, ptrdiff_t B, const int64_t *lengths, const Kernels &kernels, int backward,
         int num_threads, int units) {
    require(num_threads >= 1, "num_threads must be at least 1");
    require(B >= 1 && p.T >= 1 && p.H >= 1, "B, T and H must be at least 1");
    require(units >= 0, "units must be at least 0");
    const RecurrenceKernels &k = kernels.recurrence;
    const int threads = usable_threads(num_threads);
    const std::vector<Row> rows = rows_of(B, p.T, lengths, p.stride < 0);
    const ptrdiff_t packed = (k.packed_size(p, backward) + 15) / 16 * 16;
    p.packed = nullptr;
    float *memory = kept_memory(packed + k.scratch_size(p, backward, B));
    p.packed = memory;
    Teams teams(rows, threads);
    const auto sweep = [&](int thread) {
        ptrdiff_t first;
        Team team = teams.team_of(thread, first);
        team.scratch = memory + packed + k.scratch_size(p, backward, first);
        if (backward) return k.backward(p, team);
        for (ptrdiff_t i = team.member; i < team.num_rows; i += team.members) {
            const Row &row = team.rows[i];
            float *padding = p.states + (row.index * p.T + row.length) * p.H;
            std::fill(padding, padding + (p.T - row.length) * p.H, 0.0f);
        }
        k.forward(p, team);
    };
    if (threads == 1) {
        teams.deal(1, 1);
        k.pack(p, backward, 0, 1);
        return sweep(0);
    }
    // The runtime may give fewer threads than asked for: work is dealt to those that came.
#pragma omp parallel num_threads(threads)
    {
        const int share = omp_get_thread_num(), shares = omp_get_num_threads();
        if (share == 0) teams.deal(shares, units ? units : units_for(p, B, shares));
        k.pack(p, backward, share, shares);
#pragma omp barrier
        if (share < teams.num_threads()) sweep(share);
    }
}

using Address = uintptr_t;

struct Sizes {
    ptrdiff_t B, T, H;
};

Recurrence recurrence_of(const std::string &cell, bool replaces, bool backward_in_time,
                         const Sizes &sizes, Address weight_hh, Address bias_hh, Address first_h,
                         Address first_c) {
    Recurrence p = {};
    p.cell = cell_of(cell);
    p.update = replaces ? -1.0f : 1.0f;
    p.T = sizes.T, p.H = sizes.H, p.stride = backward_in_time ? -1 : 1;
    p.weight_hh = (const float *)weight_hh, p.bias_hh = (const float *)bias_hh;
    p.first_h = (const float *)first_h, p.first_c = (const float *)first_c;
    return p;
}

void forward(const std::string &level, int num_threads, int units, const std::string &cell,
             bool replaces, bool backward_in_time, ptrdiff_t B, ptrdiff_t T, ptrdiff_t H,
             Address lengths, Address weight_hh, Address bias_hh, Address first_h, Address first_c,
             Address xg, Address states, Address last_h, Address last_c, Address saved) {
    Recurrence p = recurrence_of(cell, replaces, backward_in_time, {B, T, H}, weight_hh, bias_hh,
                                 first_h, first_c);
    p.xg = (const float *)xg, p.states = (float *)states;
    p.last_h = (float *)last_h, p.last_c = (float *)last_c, p.saved = (float *)saved;
    run(p, B, (const int64_t *)lengths, kernels_of(level), 0, num_threads, units);
}

void backward(const std::string &level, int num_threads, int units, const std::string &cell,
              bool replaces, bool backward_in_time, ptrdiff_t B, ptrdiff_t T, ptrdiff_t H,
              Address lengths, Address weight_hh, Address first_c, Address states, Address saved,
              Address grad_states, Address grad_last_h, Address grad_last_c, Address grads,
              Address grad_first_h, Address grad_first_c) {
    Recurrence p =
        recurrence_of(cell, replaces, backward_in_time, {B, T, H}, weight_hh, 0, 0, first_c);
    p.states = (float *)states, p.saved = (float *)saved;
    p.grad_states = (const float *)grad_states;
    p.grad_last_h = (const float *)grad_last_h, p.grad_last_c = (const float *)grad_last_c;
    p.grads = (float *)grads;
    p.grad_first_h = (float *)grad_first_h, p.grad_first_c = (float *)grad_first_c;
    run(p, B, (const int64_t *)lengths, kernels_of(level), 1, num_threads, units);
}

}  // namespace

void bind_recurrence(nb::module_ &m) {
    m.def("sweep_forward", &forward, nb::call_guard<nb::gil_scoped_release>());
    m.def("sweep_backward", &backward, nb::call_guard<nb::gil_scoped_release>());
}
