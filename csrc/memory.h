// Large outputs are written to memory that nobody has touched yet: every 4 KB page of it costs a page fault.
#pragma once

#include <cstddef>

namespace kullback {

// Ask for huge pages (2 MB) for a block about to be filled for the first time; does nothing where that is not possible.
void advise_huge_pages(void* data, size_t bytes);

}  // namespace kullback
