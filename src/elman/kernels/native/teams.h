// Threads for sweeps over time: which rows and units each has, how they wait for one another, and what
// holds after fork.
#pragma once
#include <atomic>
#include <vector>

#include "recurrence.h"

// How many of the threads asked for can be used: one in a process forked from one that had threads,
// as the OpenMP runtime would wait there forever for threads that the child does not have; and no more
// than four to a processor, or 64.
int usable_threads(int asked);

// `size` floats at a multiple of 64 bytes, kept by the calling thread and handed out again by its next
// call: fresh memory would cost a page fault every 4 KiB. Throws std::bad_alloc.
float *kept_memory(ptrdiff_t size);

// Spins, then yields: a step lasts microseconds, and its threads may share a core with others.
struct Barrier {
    alignas(64) std::atomic<int> arrived{0};
    alignas(64) std::atomic<int> phase{0};
    int members = 1;

    void wait();
};

// Teams of `units` threads each; the rows are dealt to the teams so that each has the same share of
// long ones, hence about the same work and its rows still longest first.
class Teams {
  public:
    // `rows` longest first; room for at most `threads` threads.
    Teams(const std::vector<Row> &rows, int threads);

    // Deals the rows among `threads` threads, `units` of them to a team.
    void deal(int threads, int units);

    int num_threads() const { return num_teams_ * units_; }
    // The team of a thread below num_threads(), with its first row among all dealt.
    Team team_of(int thread, ptrdiff_t &first_row);

  private:
    const std::vector<Row> &rows_;
    std::vector<Row> dealt_;
    std::vector<ptrdiff_t> first_;
    std::vector<Barrier> barriers_;
    int num_teams_ = 1, units_ = 1;
};
