// How an elementwise program goes through arrays: blocks, rows, and the order of reductions.

#include "elementwise/elementwise.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "operands.h"
#include "threads/own_threads.h"
#include "threads/threads.h"

namespace elementwise {

namespace {

constexpr int64_t SHORT_ROW = BLOCK / 2;  // rows up to this length share blocks
constexpr int64_t CHUNK = 128;            // blocks that one thread reduces
constexpr int64_t LEVEL = 16;             // blocks whose sums are added before they meet others
constexpr int MOST_REDUCTIONS = 64;
constexpr double MOVE = 1;                // cost of an element's way through memory
constexpr double LOOK_UP = 10;            // in a table

int64_t whole(int64_t count) { return (count + GRAIN - 1) / GRAIN * GRAIN; }
int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <typename T>
void gather(const char* from, int64_t step, int64_t count, char* to) {
  T* out = reinterpret_cast<T*>(to);
  if (step == sizeof(T)) {
    std::memcpy(to, from, count * sizeof(T));
  } else if (step == 0) {
    if (count >= 32) return fill(count, to, from, sizeof(T));
    T x;
    std::memcpy(&x, from, sizeof x);
    for (int64_t i = 0; i < count; i++) out[i] = x;
  } else {
    for (int64_t i = 0; i < count; i++) std::memcpy(out + i, from + i * step, sizeof(T));
  }
}

template <typename T>
void scatter(const char* from, int64_t step, int64_t count, char* to) {
  if (step == sizeof(T)) std::memcpy(to, from, count * sizeof(T));
  else
    for (int64_t i = 0; i < count; i++) std::memcpy(to + i * step, from + i * sizeof(T), sizeof(T));
}

// Few elements, as rows of three are: a call of memcpy costs more than they do.
template <typename T>
inline void gather_short(const char* from, int64_t step, int64_t count, char* to) {
  for (int64_t i = 0; i < count; i++) reinterpret_cast<T*>(to)[i] = *reinterpret_cast<const T*>(from + i * step);
}

void look_up(int64_t count, const uint16_t* __restrict table, const uint16_t* __restrict from, uint16_t* __restrict to) {
#pragma GCC unroll 8
  for (int64_t i = 0; i < count; i++) to[i] = table[from[i]];
}

template <typename Use>
inline void by_size(int64_t size, const Use& use) {
  switch (size) {
    case 1: use(uint8_t{}); break;
    case 2: use(uint16_t{}); break;
    case 4: use(uint32_t{}); break;
    default: use(uint64_t{});
  }
}

}  // namespace

// Sums of converted operands: these are read as they are.
void Program::sum_narrow_operands() {
  if (code.size() != 1 || code[0].operation != CONVERT || code[0].other != F32 || !is_narrow(code[0].type)) return;
  const int operand = code[0].operands[0], converted = inputs.size() + constants.size();
  if (operand < 0 || operand >= static_cast<int>(inputs.size()) || inputs[operand] != code[0].type) return;
  for (const Output& output : outputs)
    if (output.value != converted || output.reduction != SUM) return;
  code.clear();
  for (Output& output : outputs) output.value = operand;
}

// Whether a program is a costly function of one number of 16 bits.
bool Program::is_narrow_function() const {
  return inputs.size() == 1 && is_narrow(inputs[0]) && outputs.size() == 1 && outputs[0].reduction < 0 &&
         is_narrow(types[outputs[0].value]) && cost_of_element > LOOK_UP;
}

Program::Program(std::vector<Type> given, std::vector<std::pair<Type, uint64_t>> fixed, std::vector<Instruction> made,
                 std::vector<Output> results)
    : inputs(std::move(given)), constants(std::move(fixed)), code(std::move(made)), outputs(std::move(results)) {
  sum_narrow_operands();
  const int first = inputs.size() + constants.size(), values = first + code.size();
  types = inputs;
  for (const auto& constant : constants) types.push_back(constant.first);
  std::vector<int> last(values, -1);  // the instruction that reads each value at last
  for (size_t k = 0; k < code.size(); k++) {
    const Instruction& i = code[k];
    steps.push_back(step_of(i.operation, i.type, i.other));
    if (!steps.back()) throw std::invalid_argument("an operation on a dtype that programs do not have");
    for (int n = 0; n < i.count; n++) {
      if (i.operands[n] < 0 || i.operands[n] >= first + static_cast<int>(k)) throw std::invalid_argument("an operand that is not there");
      const Type expected = i.operation == SELECT && n == 0 ? BOOL : i.type;
      if (types[i.operands[n]] != expected) throw std::invalid_argument("an operand of another dtype");
      last[i.operands[n]] = k;
    }
    types.push_back(result_of(i.operation, i.type, i.other));
    cost_of_element += cost_of(i.operation, i.type);
  }
  if (outputs.size() > MOST_REDUCTIONS) throw std::invalid_argument("more than 64 results");
  std::vector<int> seen;
  for (const Output& output : outputs) {
    if (output.value < 0 || output.value >= values) throw std::invalid_argument("a result that is not there");
    if (output.reduction >= 0) {
      reduces_any = true;
      if (!reducer_of(static_cast<Reduction>(output.reduction), types[output.value])) throw std::invalid_argument("a reduction of a dtype that programs do not have");
    } else if (output.value < first || std::find(seen.begin(), seen.end(), output.value) != seen.end()) {
      throw std::invalid_argument("a result that is an operand, or another result: COPY it");
    } else {
      seen.push_back(output.value);
    }
    last[output.value] = code.size();
    cost_of_element += MOVE * size_of(types[output.value]) / 4;
  }
  for (const Type type : inputs) cost_of_element += MOVE * size_of(type) / 4;
  has_table = is_narrow_function();
  // Blocks: inputs and constants keep theirs, those of steps are taken again when nobody reads them any more.
  slots.assign(values, -1);
  for (int v = 0; v < first; v++) slots[v] = slot_count++;
  std::vector<int> free;
  for (size_t k = 0; k < code.size(); k++) {
    const int v = first + k;
    if (free.empty()) free.push_back(slot_count++);
    slots[v] = free.back(), free.pop_back();
    if (last[v] < 0) free.push_back(slots[v]);  // nobody reads it
    for (int n = 0; n < code[k].count; n++) {
      const int x = code[k].operands[n];
      const bool again = std::find(code[k].operands, code[k].operands + n, x) != code[k].operands + n;
      if (x >= first && last[x] == static_cast<int>(k) && !again) free.push_back(slots[x]);
    }
  }
}

// One run: the loops, joined where arrays allow it.
struct Run {
  const Program& p;
  const int ins, outs, constants;
  int dimensions = 1;                  // of the loops; 0 is the inner one
  int64_t size[MOST_DIMENSIONS];
  bool reduced[MOST_DIMENSIONS];
  struct Operand {
    char* data;
    int64_t step[MOST_DIMENSIONS];
    int64_t width;                     // bytes of an element
    bool flat, fixed, one;             // dense along all loops; the same in every row; the same everywhere
    bool late;                         // an output over memory that is read
  };
  std::vector<Operand> operands;       // inputs, then outputs
  int64_t rows = 1, columns, each, grain;  // of the outer loops; of the inner one; rows of a block; columns of one
  int64_t slot;                        // bytes
  const uint16_t* table = nullptr;     // instead of the program's code

  Run(const Program& p, int rank, const int64_t* shape, const bool* is_reduced, const Array* inputs, const Array* outputs)
      : p(p), ins(p.inputs.size()), outs(p.outputs.size()), constants(p.constants.size()), operands(ins + outs) {
    for (int i = 0; i < ins + outs; i++) {
      const Array& array = i < ins ? inputs[i] : outputs[i - ins];
      operands[i].data = array.data;
      operands[i].width = size_of(i < ins ? p.inputs[i] : p.result_type(p.outputs[i - ins]));
    }
    // From the innermost on, reductions behind the others.
    int count = 0, order[MOST_DIMENSIONS];
    const auto step = [&](int operand, int d) { return (operand < ins ? inputs[operand] : outputs[operand - ins]).steps[d]; };
    int inner = rank - 1;
    while (inner >= 0 && shape[inner] == 1) inner--;
    if (inner >= 0) order[count++] = inner;
    for (const bool kind : {true, false})
      for (int d = inner - 1; d >= 0; d--)
        if (shape[d] != 1 && is_reduced[d] == kind) order[count++] = d;
    dimensions = 0;
    for (int k = 0; k < count; k++) {
      const int d = order[k], top = dimensions - 1;
      bool joins = dimensions > 0 && reduced[top] == is_reduced[d];
      for (int i = 0; joins && i < ins + outs; i++) joins = step(i, d) == operands[i].step[top] * size[top];
      if (joins) {
        size[top] *= shape[d];
        continue;
      }
      for (int i = 0; i < ins + outs; i++) operands[i].step[dimensions] = step(i, d);
      size[dimensions] = shape[d], reduced[dimensions++] = is_reduced[d];
    }
    if (!dimensions) {
      dimensions = 1, size[0] = 1, reduced[0] = false;
      for (Operand& x : operands) x.step[0] = 0;
    }
    columns = size[0];
    for (int d = 1; d < dimensions; d++) rows *= size[d];
    int64_t widest = 4;
    for (const Type type : p.types) widest = std::max(widest, size_of(type));
    slot = BLOCK * widest;
    for (int i = 0; i < ins + outs; i++) {
      Operand& x = operands[i];
      if (i >= ins && columns == 1 && dimensions == 1) x.step[0] = x.width;
      x.flat = x.fixed = true;
      int64_t dense = x.width;
      for (int d = 0; d < dimensions; dense *= size[d++]) {
        x.flat = x.flat && x.step[d] == dense;
        x.fixed = x.fixed && (d == 0 || x.step[d] == 0);
      }
      x.one = x.fixed && x.step[0] == 0;
      x.late = false;
    }
    for (int i = ins; i < ins + outs; i++)
      for (int k = 0; k < ins; k++) operands[i].late = operands[i].late || overlap(operands[i], operands[k]);
    each = columns > SHORT_ROW ? 1 : std::max<int64_t>(1, BLOCK / std::max<int64_t>(columns, 1));
    grain = columns > SHORT_ROW ? BLOCK : columns;
  }

  int64_t reach(const Operand& x) const {  // bytes from the first to behind the last
    int64_t end = x.width;
    for (int d = 0; d < dimensions; d++) end += std::max<int64_t>(0, x.step[d]) * (size[d] - 1);
    return end;
  }
  int64_t before(const Operand& x) const {
    int64_t first = 0;
    for (int d = 0; d < dimensions; d++) first += std::min<int64_t>(0, x.step[d]) * (size[d] - 1);
    return first;
  }
  bool overlap(const Operand& a, const Operand& b) const {
    return a.data + before(a) < b.data + reach(b) && b.data + before(b) < a.data + reach(a);
  }

  int64_t blocks_of_row() const { return over(columns, grain); }

  void go(ffi::ThreadPool& threads) const;
};

// What a thread has: memory for blocks, and where each value of the present one lies.
struct Worker {
  const Run& run;
  Scratch room;
  std::vector<char*> at;                // of each value
  std::vector<char*> loaded;            // inputs that are the same in each block, or null
  std::vector<const char*> filled;      // inputs whose block is full of one element: it
  Scratch sums;                         // of lines side by side: two blocks of each result
  int64_t indices[MOST_DIMENSIONS], next = -1, last = 0;  // of the present row; the row behind; how many rows

  explicit Worker(const Run& run)
      : run(run), room(run.slot / 4 * run.p.slot_count), at(run.p.types.size()), loaded(run.ins, nullptr),
        filled(run.ins, nullptr), sums(run.slot / 2 * run.outs) {
    const int64_t most = std::min(BLOCK, whole(run.rows * run.columns));
    for (int i = 0; i < run.ins; i++) {
      const Run::Operand& x = run.operands[i];
      if (x.one) {
        by_size(x.width, [&](auto t) { gather<decltype(t)>(x.data, 0, most, slot_of(i)); });
        loaded[i] = slot_of(i);
      } else if (x.fixed && run.each > 1) {
        const int64_t rows = std::min(run.each, run.rows);
        by_size(x.width, [&](auto t) {
          for (int64_t r = 0; r < rows; r++)
            gather<decltype(t)>(x.data, x.step[0], run.columns, slot_of(i) + r * run.columns * x.width);
        });
        loaded[i] = slot_of(i);
      }
    }
    for (int i = 0; i < run.constants; i++) {
      const auto& [type, bits] = run.p.constants[i];
      by_size(size_of(type), [&, bits = bits](auto t) {
        gather<decltype(t)>(reinterpret_cast<const char*>(&bits), 0, most, slot_of(run.ins + i));
      });
      at[run.ins + i] = slot_of(run.ins + i);
    }
  }

  char* slot_of(int value) { return reinterpret_cast<char*>(room.data) + run.p.slots[value] * run.slot; }

  void find(int64_t row, int64_t rows) {
    const int64_t now = row;
    if (now == next) {  // as a rule
      indices[1] += last;
      for (int d = 1; d + 1 < run.dimensions && indices[d] >= run.size[d]; d++)
        indices[d + 1] += indices[d] / run.size[d], indices[d] %= run.size[d];
      next = now + rows, last = rows;
      return;
    }
    if (now == next - last && rows == last) return;
    next = now + rows, last = rows;
    for (int d = 1; d < run.dimensions; d++) indices[d] = row % run.size[d], row /= run.size[d];
  }
  int64_t offset(const Run::Operand& x) const {
    int64_t sum = 0;
    for (int d = 1; d < run.dimensions; d++) sum += indices[d] * x.step[d];
    return sum;
  }

  // use(row number of these, offset) for rows from where `indices` are.
  template <typename Use>
  void each_row(const Run::Operand& x, int64_t rows, const Use& use) const {
    int64_t now[MOST_DIMENSIONS];
    std::copy(indices + 1, indices + run.dimensions, now + 1);
    int64_t at = offset(x);
    for (int64_t r = 0; r < rows;) {
      const int64_t run_length = std::min(rows - r, run.dimensions > 1 ? run.size[1] - now[1] : 1);
      for (int64_t k = 0; k < run_length; k++) use(r + k, at + k * (run.dimensions > 1 ? x.step[1] : 0));
      r += run_length;
      if (r >= rows) return;
      at = 0, now[1] = 0;
      for (int d = 2; d < run.dimensions; d++) {
        if (++now[d] < run.size[d]) break;
        now[d] = 0;
      }
      for (int d = 1; d < run.dimensions; d++) at += now[d] * x.step[d];
    }
  }

  // Makes `rows` rows from `row` on (several only if all columns are made), `count` columns from `column` on. `spills`:
  // what lies behind these elements in dense outputs is made later, by this thread.
  void make(int64_t row, int64_t rows, int64_t column, int64_t count, bool spills = false) {
    const int64_t all = rows * count, padded = whole(all);
    find(row, rows);
    for (int i = 0; i < run.ins; i++) {
      if (loaded[i]) {
        at[i] = loaded[i];
        continue;
      }
      const Run::Operand& x = run.operands[i];
      char* from = x.data + offset(x) + column * x.step[0];
      const bool dense = rows > 1 ? x.flat : x.step[0] == x.width;
      if (dense && (padded == all || can_read(from + all * x.width, (padded - all) * x.width))) {
        at[i] = from;
        continue;
      }
      char* to = at[i] = slot_of(i);
      by_size(x.width, [&](auto t) {
        using T = decltype(t);
        if (dense) std::memcpy(to, from, all * x.width);
        else if (rows == 1 && x.step[0] == 0) {
          if (filled[i] != from) gather<T>(from, 0, run.grain, to), filled[i] = from;
        } else if (rows == 1) gather<T>(from, x.step[0], count, to);
        else if (count < 16)
          each_row(x, rows, [&](int64_t r, int64_t where) { gather_short<T>(x.data + where, x.step[0], count, to + r * count * x.width); });
        else
          each_row(x, rows, [&](int64_t r, int64_t where) { gather<T>(x.data + where, x.step[0], count, to + r * count * x.width); });
      });
    }
    const int first = run.ins + run.constants;
    for (size_t k = 0; k < run.p.code.size(); k++) at[first + k] = nullptr;
    for (int o = 0; o < run.outs; o++) {
      if (run.p.outputs[o].reduction >= 0) continue;
      const Run::Operand& y = run.operands[run.ins + o];
      if (!y.late && (padded == all || (spills && y.flat)) && (rows > 1 ? y.flat : y.step[0] == y.width))
        at[run.p.outputs[o].value] = y.data + offset(y) + column * y.step[0];
    }
    if (run.table) {
      char*& to = at[run.p.outputs[0].value];
      if (!to) to = slot_of(run.p.outputs[0].value);
      look_up(padded, run.table, reinterpret_cast<const uint16_t*>(at[0]), reinterpret_cast<uint16_t*>(to));
    } else for (size_t k = 0; k < run.p.code.size(); k++) {
      char*& to = at[first + k];
      if (!to) to = slot_of(first + k);
      const int* x = run.p.code[k].operands;
      run.p.steps[k](padded, to, at[x[0]], at[x[1]], at[x[2]]);
    }
    for (int o = 0; o < run.outs; o++) {
      if (run.p.outputs[o].reduction >= 0) continue;
      const Run::Operand& y = run.operands[run.ins + o];
      const char* from = at[run.p.outputs[o].value];
      char* to = y.data + offset(y) + column * y.step[0];
      if (from == to) continue;
      by_size(y.width, [&](auto t) {
        using T = decltype(t);
        if (rows > 1 && y.flat) std::memcpy(to, from, all * y.width);
        else if (rows == 1) scatter<T>(from, y.step[0], count, to);
        else each_row(y, rows, [&](int64_t r, int64_t where) { scatter<T>(from + r * count * y.width, y.step[0], count, y.data + where); });
      });
    }
  }
};

namespace {

struct Reduced {  // an output that is reduced
  const Reducer *reducer, *joiner;  // of the elements; of what that gives
  int value;
  int64_t read, width;  // bytes of an element; of a result
  char* to;
};

}  // namespace

void Run::go(ffi::ThreadPool& threads) const {
  std::vector<Reduced> results;
  for (int o = 0; o < outs; o++)
    if (const Output& output = p.outputs[o]; output.reduction >= 0) {
      const Reduction reduction = static_cast<Reduction>(output.reduction);
      const Type type = p.types[output.value];
      results.push_back({reducer_of(reduction, type), reducer_of(reduction, reduced_type(type)), output.value, size_of(type),
                         operands[ins + o].width, operands[ins + o].data});
    }
  int64_t kept = reduced[0] ? 1 : columns, along = 1, outer = 1;
  for (int d = 1; d < dimensions; d++) (reduced[d] ? along : outer) *= size[d];
  kept *= outer;
  if (rows * columns == 0) {
    for (const Reduced& r : results) r.reducer->clear(kept, r.to), r.reducer->finish(kept, r.to);
    return;
  }
  // Nothing is to be made where dense operands are reduced as they are.
  const bool is_made = !p.code.empty() || std::any_of(results.begin(), results.end(), [&](const Reduced& r) {
    return r.value >= ins || !operands[r.value].flat;
  });
  const auto make = [&](Worker& worker, int64_t row, int64_t some, int64_t column, int64_t count) {
    if (is_made) worker.make(row, some, column, count);
    else
      for (const Reduced& r : results) worker.at[r.value] = operands[r.value].data + (row * columns + column) * r.read;
  };
  const auto shared = [&](int64_t units, const auto& use) {
    const int64_t tasks = parts(units, 1, tasks_for(p.cost_of_element * rows * columns, threads));
    share(threads, tasks, [&](int64_t task) {
      Worker worker(*this);
      const Range range = part(task, tasks, units, 1);
      for (int64_t unit = range.from; unit < range.to; unit++) use(worker, unit, unit + 1 < range.to);
    });
  };
  if (results.empty()) {
    const int64_t across = blocks_of_row();
    return shared(over(rows, each) * across, [&](Worker& worker, int64_t unit, bool spills) {
      const int64_t row = unit / across * each, column = unit % across * grain;
      worker.make(row, std::min(each, rows - row), column, std::min(grain, columns - column), spills);
    });
  }
  if (reduced[0] && along == 1 && columns <= SHORT_ROW)  // whole lines in a block
    return shared(over(rows, each), [&](Worker& worker, int64_t unit, bool) {
      const int64_t row = unit * each, count = std::min(each, rows - row);
      make(worker, row, count, 0, columns);
      for (const Reduced& r : results) {
        r.reducer->lines(count, columns, worker.at[r.value], r.to + row * r.width);
        r.reducer->finish(count, r.to + row * r.width);
      }
    });
  const int64_t across = blocks_of_row();
  if (reduced[0]) {
    // Of each result: blocks, whose sums are summed by chunks, whose sums are summed.
    const int64_t blocks = over(along, each) * across, chunks = over(blocks, CHUNK);
    std::vector<std::unique_ptr<Scratch>> held;
    std::vector<char*> sums;
    for (const Reduced& r : results) {
      held.emplace_back(chunks > 1 ? new Scratch(outer * chunks * 2) : nullptr);
      sums.push_back(chunks > 1 ? reinterpret_cast<char*>(held.back()->data) : r.to);
    }
    shared(outer * chunks, [&](Worker& worker, int64_t unit, bool) {
      const int64_t k = unit / chunks, from = unit % chunks * CHUNK, to = std::min(blocks, from + CHUNK);
      char* const own = reinterpret_cast<char*>(worker.sums.data);
      for (int64_t b = from; b < to; b++) {
        const int64_t row = b / across * each, column = b % across * grain;
        const int64_t some = std::min(each, along - row), count = std::min(grain, columns - column);
        make(worker, k * along + row, some, column, count);
        for (size_t i = 0; i < results.size(); i++) {
          char* target = to - from == 1 ? sums[i] + unit * results[i].width : own + i * slot + (b - from) * results[i].width;
          results[i].reducer->lines(1, some * count, worker.at[results[i].value], target);
        }
      }
      for (size_t i = 0; i < results.size() && to - from > 1; i++)
        results[i].joiner->lines(1, to - from, own + i * slot, sums[i] + unit * results[i].width);
    });
    for (size_t i = 0; i < results.size(); i++) {
      if (chunks > 1) results[i].joiner->lines(outer, chunks, sums[i], results[i].to);
      results[i].reducer->finish(outer, results[i].to);
    }
    return;
  }
  // Lines side by side: blocks are joined to one, element by element.
  const int64_t blocks = over(along, each), chunks = over(blocks, 2 * CHUNK);
  std::vector<std::unique_ptr<Scratch>> held;
  std::vector<char*> sums;
  for (const Reduced& r : results) {
    held.emplace_back(chunks > 1 ? new Scratch((kept * chunks * r.width + 3) / 4) : nullptr);
    sums.push_back(chunks > 1 ? reinterpret_cast<char*>(held.back()->data) : r.to);
  }
  shared(chunks * outer * across, [&](Worker& worker, int64_t unit, bool) {
    const int64_t tile = unit % across, k = unit / across % outer, chunk = unit / across / outer;
    const int64_t column = tile * grain, count = std::min(grain, columns - column);
    const int64_t from = chunk * 2 * CHUNK, to = std::min(blocks, from + 2 * CHUNK);
    char* const first = reinterpret_cast<char*>(worker.sums.data);
    const int64_t wide = std::min(each, along) * count;
    for (int64_t b = from, next; b < to; b = next) {
      const int64_t row = b * each, some = std::min(each, along - row) * count, level = (b - from) / LEVEL;
      make(worker, k * along + row, some / count, column, count);
      // Whole blocks of a level that lie as they are go together.
      const bool begins = (b - from) % LEVEL == 0;
      next = is_made || !begins ? b + 1 : std::max(b + 1, std::min({to, b + LEVEL, along / each}));
      for (size_t i = 0; i < results.size(); i++) {
        const Reduced& r = results[i];
        char *high = first + 2 * i * slot, *low = level ? high + slot : high;  // of the first level there is one only
        if (!begins) {
          r.reducer->join(some, low, worker.at[r.value]);
        } else {
          if (level > 1) r.joiner->join(wide, high, low);
          if (some < wide) r.reducer->clear(wide, low);
          r.reducer->rows(next - b, some, each * columns, low, worker.at[r.value]);
        }
        if (level && next == to) r.joiner->join(wide, high, low);
      }
    }
    for (size_t i = 0; i < results.size(); i++) {
      const Reduced& r = results[i];
      char* all = first + 2 * i * slot;
      for (int64_t n = std::min(each, along); n > 1;) {
        const int64_t half = (n + 1) / 2;
        r.joiner->join((n - half) * count, all, all + half * count * r.width);
        n = half;
      }
      char* to = sums[i] + ((chunk * outer + k) * columns + column) * r.width;
      std::memcpy(to, all, count * r.width);
      if (chunks == 1) r.reducer->finish(count, to);
    }
  });
  for (size_t i = 0; i < results.size(); i++) {
    const Reduced& r = results[i];
    if (chunks > 1) {
      for (int64_t n = chunks; n > 1;) {
        const int64_t half = (n + 1) / 2;
        r.joiner->join((n - half) * kept, sums[i], sums[i] + half * kept * r.width);
        n = half;
      }
      std::memcpy(r.to, sums[i], kept * r.width);
      r.reducer->finish(kept, r.to);
    }
  }
}

void Program::run(int rank, const int64_t* shape, const bool* reduced, const Array* inputs, const Array* outputs) const {
  ffi::ThreadPool threads = own_threads();
  run(rank, shape, reduced, inputs, outputs, threads);
}

void Program::run(int rank, const int64_t* shape, const bool* reduced, const Array* inputs, const Array* outputs,
                  ffi::ThreadPool& threads) const {
  Run run(*this, rank, shape, reduced, inputs, outputs);
  if (has_table) run.table = table(rank, shape, threads);
  run.go(threads);
}

// The program's values of all numbers, if it is known; as they are where subnormal numbers are computed with.
const uint16_t* Program::table(int rank, const int64_t* shape, ffi::ThreadPool& threads) const {
  if (!FloatMode::of_thread().is_exact()) return nullptr;
  int64_t count = 1;
  for (int d = 0; d < rank; d++) count *= shape[d];
  return narrow_table.values(count, [&](uint16_t* numbers, uint16_t* values) {
    const int64_t all = NarrowTable::COUNT, step = sizeof(uint16_t);
    const bool reduced = false;
    const Array from{reinterpret_cast<char*>(numbers), {step}}, to{reinterpret_cast<char*>(values), {step}};
    Run(*this, 1, &all, &reduced, &from, &to).go(threads);
  });
}

}  // namespace elementwise
