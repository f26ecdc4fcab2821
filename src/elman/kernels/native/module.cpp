// The Python module `_native`.
#include "binding.h"

NB_MODULE(_native, m) {
    bind_levels(m);
    bind_recurrence(m);
}
