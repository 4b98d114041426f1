// Which instruction set runs: the widest this machine has, or the one KULLBACK_ISA names.
#pragma once

#include "elementwise.h"

namespace kullback {

const InstructionSet& instruction_set();

}  // namespace kullback
