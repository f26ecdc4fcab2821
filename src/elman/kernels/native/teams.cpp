#include "teams.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__x86_64__)
#include <immintrin.h>
#define ELMAN_PAUSE() _mm_pause()
#else
#define ELMAN_PAUSE() (void)0
#endif

namespace {

// The runtime ends the process where the system refuses a thread.
constexpr int kMostThreads = 64;

std::atomic<bool> is_forked{false};

const int registered = pthread_atfork(nullptr, nullptr, [] { is_forked = true; });

struct FreeMemory {
    void operator()(float *p) const { std::free(p); }
};

}  // namespace

int usable_threads(int asked) {
    if (registered == 0 && is_forked) return 1;
    return std::min(asked, std::max(kMostThreads, 4 * omp_get_num_procs()));
}

float *kept_memory(ptrdiff_t size) {
    thread_local std::unique_ptr<float, FreeMemory> memory;
    thread_local ptrdiff_t kept = 0;
    if (size > kept) {
        memory.reset();
        kept = 0;
        const size_t bytes = ((size_t)size * sizeof(float) + 63) / 64 * 64;
        memory.reset((float *)std::aligned_alloc(64, bytes));
        if (!memory) throw std::bad_alloc();
        kept = size;
    }
    return memory.get();
}

void Barrier::wait() {
    const int now = phase.load(std::memory_order_acquire);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
        arrived.store(0, std::memory_order_relaxed);
        phase.store(now + 1, std::memory_order_release);
        return;
    }
    for (int spins = 0; phase.load(std::memory_order_acquire) == now; spins++) {
        if (spins < 1000) ELMAN_PAUSE();
        else sched_yield();
    }
}

Teams::Teams(const std::vector<Row> &rows, int threads)
    : rows_(rows), dealt_(rows.size()), first_((size_t)threads + 1), barriers_((size_t)threads) {}

void Teams::deal(int threads, int units) {
    units_ = units < threads ? units : threads;
    num_teams_ = threads / units_;
    const ptrdiff_t count = (ptrdiff_t)rows_.size();
    if (count < num_teams_) num_teams_ = (int)count;
    ptrdiff_t next = 0;
    for (ptrdiff_t team = 0; team < num_teams_; team++) {
        first_[(size_t)team] = next;
        barriers_[(size_t)team].members = units_;
        for (ptrdiff_t round = 0; round * num_teams_ < count; round++) {
            const ptrdiff_t turn = round % 2 ? num_teams_ - 1 - team : team;
            const ptrdiff_t row = round * num_teams_ + turn;
            if (row < count) dealt_[(size_t)next++] = rows_[(size_t)row];
        }
    }
    first_[(size_t)num_teams_] = next;
}

Team Teams::team_of(int thread, ptrdiff_t &first_row) {
    const size_t team = (size_t)(thread / units_);
    first_row = first_[team];
    Team found = {};
    found.rows = dealt_.data() + first_row;
    found.num_rows = first_[team + 1] - first_row;
    found.member = thread % units_;
    found.members = units_;
    found.wait = [](void *barrier) { ((Barrier *)barrier)->wait(); };
    found.barrier = &barriers_[team];
    return found;
}
