// Fault points: places where a test lets a process fail as machines do. One variable names them,
//
//     TRIREME_FAULT=WHERE[@RANK][#N]=ACTION[,...]      save-write@1#3=kill: rank 1, when it gets there the
//     third time
//
// and without it a point costs one comparison. Without @RANK every rank fails, without #N each does so the
// first time. Actions: kill (SIGKILL to itself), stop (SIGSTOP to itself; whoever waits kills it or lets it
// go on), nospace and ioerror (the Error that a full disk or a broken one ends in). docs/fault-points.md
// lists the points.
#pragma once

namespace trireme {

// The rank that @RANK is compared with; 0 until it is set.
void set_fault_rank(int rank);

// `where` is one of the names in docs/fault-points.md. Throws Error (output) where the variable asks for
// nospace or ioerror.
void fault_point(const char* where);

// Reads TRIREME_FAULT before anything else runs, so that a wrong one is told. Throws Error (usage).
void check_fault_variable();

} // namespace trireme
