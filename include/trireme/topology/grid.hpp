// The process grid: how world ranks are arranged in tensor, data and pipeline parallelism. Pure integers, no
// MPI.
//
// The order is tensor fastest, then data, then pipeline (Megatron-LM's default), e.g. 8 ranks at TP 2 x PP 2
// x DP 2:
//
//     rank      0 1 2 3 4 5 6 7
//     tensor    0 1 0 1 0 1 0 1        tensor group of rank 5:   4 5
//     data      0 0 1 1 0 0 1 1        data group of rank 5:     5 7
//     pipeline  0 0 0 0 1 1 1 1        pipeline group of rank 5: 1 5     stage group of rank 5: 4 5 6 7
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::topology {

struct Coordinates {
    int tensor = 0;
    int data = 0;
    int pipeline = 0;
    bool operator==(const Coordinates&) const = default;
};

struct Grid {
    int tensor = 1; // sizes
    int data = 1;
    int pipeline = 1;
    // Neighbouring tensor ranks that hold the same key/value group; more than 1 where a model has fewer
    // groups than there are tensor ranks. A divisor of `tensor`.
    int key_value_holders = 1;

    int ranks() const { return tensor * data * pipeline; }
    Coordinates coordinates(int rank) const;
    int rank(const Coordinates& at) const;

    // World ranks of the groups that contain `rank`, ascending.
    std::vector<int> tensor_group(int rank) const;
    std::vector<int> data_group(int rank) const;
    // Of the tensor group, those that hold the key/value groups of `rank`.
    std::vector<int> key_value_group(int rank) const;
    std::vector<int> pipeline_group(int rank) const;
    // All ranks of one pipeline stage (tensor x data): they write one checkpoint file together.
    std::vector<int> stage_group(int rank) const;
    // All ranks of one data replica (tensor x pipeline): they hold one model between them.
    std::vector<int> model_group(int rank) const;
    // First and last stage of the pipeline group of `rank` (one rank if there is one stage): they share tied
    // embeddings.
    std::vector<int> embedding_group(int rank) const;

    std::string text() const; // "TP 2 x PP 2 x DP 2"
    bool operator==(const Grid&) const = default;
};

} // namespace trireme::topology
