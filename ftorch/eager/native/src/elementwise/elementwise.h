// Programs of elementwise instructions, and reductions of what they give.
//
// A program runs on blocks of a few hundred elements, one instruction after the other, so that what lies between stays in
// the first cache.
#pragma once

#include <cstdint>
#include <vector>

#include "calls.h"
#include "codes.h"
#include "elementwise/narrow_table.h"

namespace elementwise {

enum Type : uint8_t { ELEMENT_TYPES(ENUMERATOR) TYPES };
enum Operation : uint8_t { OPERATIONS(ENUMERATOR) OPERATION_COUNT };
enum Reduction : uint8_t { REDUCTIONS(ENUMERATOR) REDUCTION_COUNT };

constexpr int64_t BLOCK = 1024;  // elements
constexpr int64_t GRAIN = 16;   // elements in multiples of which instructions are made
constexpr int64_t LANES = 64;   // partial results of a reduction along a line, whatever the instructions
constexpr int MOST_DIMENSIONS = 32;

int64_t size_of(Type type);

// Makes `count` elements, a multiple of GRAIN.
typedef void (*Step)(int64_t count, void* to, const void* a, const void* b, const void* c);

// The step of an operation on a type; of CONVERT from `type` to `other`. Null: there is none.
Step step_of(Operation operation, Type type, Type other);
// What an element costs, about, in units of an addition of float32.
double cost_of(Operation operation, Type type);
Type result_of(Operation operation, Type type, Type other);

inline int operands_of(Operation operation) { return operation == SELECT || operation == CLAMP ? 3 : operation < NEG ? 2 : 1; }

// Of an element count of any number: joins those of `x`, or of rows. The results of a sum of floats of 16 bits are float32.
struct Reducer {
  // `rows` results, each of `count` elements one behind the other, which lie at `x`.
  void (*lines)(int64_t rows, int64_t count, const void* x, void* to);
  // to[i] = to[i] joined x[i], for `count` elements (any number).
  void (*join)(int64_t count, void* to, const void* x);
  // to[i] = x[i] joined x[i + step] and so on, of `rows` at least one, for `count` elements.
  void (*rows)(int64_t rows, int64_t count, int64_t step, void* to, const void* x);
  // The first elements of `to` become what joins to nothing.
  void (*clear)(int64_t count, void* to);
  // The last change of results.
  void (*finish)(int64_t count, void* to);
};
const Reducer* reducer_of(Reduction reduction, Type type);  // null: there is none

inline bool is_narrow(Type type) { return type == F16 || type == BF16; }
// Of a reduction of elements of that type.
inline Type reduced_type(Type type) { return is_narrow(type) ? F32 : type; }

// `count` times the element of `size` bytes at `value`.
void fill(int64_t count, void* to, const void* value, int64_t size);

struct Instruction {
  Operation operation;
  Type type, other;  // of the operands; of the result
  int operands[3], count;
};

struct Output {
  int value;
  int reduction;  // -1: none
};

// An array, and where its elements lie: as many steps, in bytes, as the program's shape has dimensions.
struct Array {
  char* data;
  int64_t steps[MOST_DIMENSIONS];
};

class Program {
 public:
  Program(std::vector<Type> inputs, std::vector<std::pair<Type, uint64_t>> constants, std::vector<Instruction> code,
          std::vector<Output> outputs);
  // shape: the elements that are computed; `reduced`: along which dimensions reductions go, whose outputs have step
  // 0 there.
  void run(int rank, const int64_t* shape, const bool* reduced, const Array* inputs, const Array* outputs) const;
  // By the threads of a program of XLA's.
  void run(int rank, const int64_t* shape, const bool* reduced, const Array* inputs, const Array* outputs,
           ffi::ThreadPool& threads) const;

  const std::vector<Type>& input_types() const { return inputs; }
  Type result_type(const Output& output) const { return output.reduction < 0 ? types[output.value] : reduced_type(types[output.value]); }
  const std::vector<Output>& results() const { return outputs; }
  double cost() const { return cost_of_element; }
  bool reduces() const { return reduces_any; }

 private:
  void sum_narrow_operands();
  bool is_narrow_function() const;
  const uint16_t* table(int rank, const int64_t* shape, ffi::ThreadPool& threads) const;

  friend struct Run;
  friend struct Worker;
  std::vector<Type> inputs, types;
  std::vector<std::pair<Type, uint64_t>> constants;
  std::vector<Instruction> code;
  std::vector<Step> steps;
  std::vector<Output> outputs;
  std::vector<int> slots;  // of each value
  int slot_count = 0;
  double cost_of_element = 0;
  bool reduces_any = false;
  bool has_table = false;
  mutable NarrowTable narrow_table;
};

}  // namespace elementwise
