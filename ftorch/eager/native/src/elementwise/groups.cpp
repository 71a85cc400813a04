// Elementwise steps with several results, as an optimizer's are: each number is read once, where XLA would make a
// pass over memory for every result.
//
// The steps run on blocks that stay in the first cache, one step after the other. Each rounds its result, as it does by
// itself: a quotient is no product with an inverse, and products and sums are not contracted.

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "operands.h"
#include "threads/threads.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace {

enum Operation { GROUP_STEPS(ENUMERATOR) TIMES_PLUS, TIMES_MINUS, MINUS_TIMES, COPY };

// Numbers one behind the other, or (step 0) a vector full of one.
struct Numbers { const float* data; int64_t step; };

#define KERNELS "elementwise/groups.inc"
#include "vectors/instructions.inc"

constexpr int64_t BLOCK = 512, LINE = 16, LANES = 16;  // numbers: of a block, a cache line and the longest vector
constexpr double PASS = 2;  // operations in whose time a step is made on an element

// A value of a group: an operand, or what a step gives.
struct Value {
  enum { ARRAY, NUMBER, STEP } kind;
  const float* data = nullptr;  // an array's
  float number = 0;
  Operation operation = COPY;
  int operands[3] = {0, 0, 0}, count = 0;
  int uses = 0, slot = -1;  // a step's: where its block lies, if not at `to`
  float* to = nullptr;
};

class Group {
 public:
  Group(std::vector<Value> given, Integers steps, const std::vector<int>& results, const std::vector<float*>& to)
      : values(std::move(given)) {
    std::vector<int> now;  // the value that each of the call's is
    for (size_t v = 0; v < values.size(); v++) now.push_back(v);
    for (size_t s = 0; s < steps.size(); s += 4)
      now.push_back(add(static_cast<Operation>(steps[s]), now[steps[s + 1]], now[steps[s + 2]], now[steps[s + 3]]));
    std::vector<int> found;
    for (const int r : results) {
      found.push_back(values[now[r]].kind == Value::STEP && !is_in(found, now[r]) ? now[r] : copy(now[r]));
      values[found.back()].uses++;
    }
    drop_unused();
    for (size_t v = 0; v < values.size(); v++) join(v);
    place(found, to);
  }

  int64_t size() const { return order.size(); }
  int64_t room() const { return slots * BLOCK; }

  // Makes the results from element `from` on. `room`: memory for what lies between.
  void run(int64_t from, int64_t count, float* room) const {
    static const auto apply = BEST(apply);
    int64_t made = 0;
    for (const int v : order) {
      const Value& step = values[v];
      ask(from + BLOCK, made++);
      Numbers operands[3] = {};
      for (int i = 0; i < step.count; i++) operands[i] = numbers(step.operands[i], from, room);
      apply(step.operation, count, step.slot < 0 ? step.to + from : room + step.slot * BLOCK, operands[0], operands[1],
            operands[2]);
    }
    for (const auto& [slot, to] : late) std::memcpy(to + from, room + slot * BLOCK, count * sizeof(float));
  }

 private:
  std::vector<Value> values;
  std::vector<int> order;                        // of the steps that are made
  std::vector<std::pair<int64_t, float*>> late;  // results that take a place which is read to the end
  std::vector<std::array<float, LANES>> vectors;
  std::vector<const float*> arrays;              // those that are read
  int64_t slots = 0;

  static bool is_in(const std::vector<int>& all, int v) { return std::find(all.begin(), all.end(), v) != all.end(); }
  bool is_step(int v, Operation operation) const {
    return values[v].kind == Value::STEP && values[v].operation == operation;
  }

  int push(Value value) {
    values.push_back(value);
    return values.size() - 1;
  }

  int step(Operation operation, std::initializer_list<int> operands) {
    Value value{Value::STEP};
    value.operation = operation;
    for (const int v : operands) values[v].uses++, value.operands[value.count++] = v;
    return push(value);
  }

  int copy(int v) { return step(COPY, {v}); }

  // Asks for a part of the arrays' next block: between the steps, since memory takes only some requests at a time.
  void ask(int64_t from, int64_t part) const {
    const int64_t lines = BLOCK / LINE, all = arrays.size() * lines;
    for (int64_t i = all * part / size(); i < all * (part + 1) / size(); i++)
      __builtin_prefetch(arrays[i / lines] + from + i % lines * LINE);
  }

  // A step, or what is known to be the same.
  int add(Operation operation, int a, int b, int c) {
    if (operation == CHOICE) return values[a].number != 0 ? c : b;
    if (operation >= NEGATIVE) return step(operation, {a});
    return step(operation, {a, b});
  }

  void drop_unused() {
    for (size_t v = values.size(); v-- > 0;)
      if (values[v].kind == Value::STEP && !values[v].uses)
        for (int i = 0; i < values[v].count; i++) values[values[v].operands[i]].uses--;
  }

  // A product that only a sum or difference takes is part of that.
  void join(int v) {
    Value& sum = values[v];
    if (sum.kind != Value::STEP || !sum.uses || (sum.operation != PLUS && sum.operation != MINUS)) return;
    for (const int which : {1, 0}) {
      Value& product = values[sum.operands[which]];
      if (!is_step(sum.operands[which], TIMES) || product.uses != 1) continue;
      const int other = sum.operands[1 - which];
      sum.operation = sum.operation == PLUS ? TIMES_PLUS : which ? MINUS_TIMES : TIMES_MINUS;
      sum.count = 3, sum.operands[0] = product.operands[0], sum.operands[1] = product.operands[1];
      sum.operands[2] = other, product.uses = 0;
      return;
    }
  }

  // Says where each step's block lies.
  void place(const std::vector<int>& results, const std::vector<float*>& to) {
    std::vector<int> last(values.size(), -1);  // the value that reads each at last
    for (size_t v = 0; v < values.size(); v++) {
      if (values[v].kind != Value::STEP || !values[v].uses) continue;
      order.push_back(v);
      for (int i = 0; i < values[v].count; i++) last[values[v].operands[i]] = v;
    }
    for (size_t r = 0; r < results.size(); r++) values[results[r]].to = to[r];
    std::vector<int> free;
    for (const int v : order) {
      Value& step = values[v];
      const bool is_read = step.to && std::any_of(values.begin(), values.end(), [&](const Value& x) {
        return x.kind == Value::ARRAY && x.data == step.to && last[&x - values.data()] > v;
      });
      if (!step.to || is_read) {
        if (free.empty()) free.push_back(slots++);
        step.slot = free.back(), free.pop_back();
        if (is_read) late.push_back({step.slot, step.to}), last[v] = values.size();
      }
      for (int i = 0; i < step.count; i++) {
        const int x = step.operands[i];
        const bool again = std::find(step.operands, step.operands + i, x) != step.operands + i;
        if (values[x].kind == Value::STEP && values[x].slot >= 0 && last[x] == v && !again)
          free.push_back(values[x].slot);
      }
    }
    for (const Value& x : values)
      if (x.kind == Value::ARRAY) arrays.push_back(x.data);
    vectors.resize(values.size());
    for (size_t v = 0; v < values.size(); v++)
      if (values[v].kind == Value::NUMBER) vectors[v].fill(values[v].number);
  }

  Numbers numbers(int v, int64_t from, float* room) const {
    const Value& value = values[v];
    if (value.kind == Value::NUMBER) return {vectors[v].data(), 0};
    if (value.kind == Value::ARRAY) return {value.data + from, 1};
    return {value.slot < 0 ? value.to + from : room + value.slot * BLOCK, 1};
  }
};

// operands: arrays of one shape and numbers. steps: each an operation and the numbers of three values, operands first
// and then what steps give; gives: of those that are results.
ffi::Error group(ffi::ThreadPool pool, ffi::RemainingArgs operands, ffi::RemainingRets outputs, Integers steps,
                 Integers gives) {
  const int64_t count = (*outputs.get<Any>(0))->element_count();
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); i++) {
    const Any x = *operands.get<Any>(i);
    Value value{x.dimensions().size() ? Value::ARRAY : Value::NUMBER};
    if (x.element_type() == ffi::PRED) value.number = *static_cast<const bool*>(x.untyped_data());
    else value.data = static_cast<const float*>(x.untyped_data()), value.number = *value.data;
    values.push_back(value);
  }
  std::vector<float*> to;
  for (size_t i = 0; i < outputs.size(); i++) to.push_back(static_cast<float*>((*outputs.get<Any>(i))->untyped_data()));
  const Group group(std::move(values), steps, {gives.begin(), gives.end()}, to);
  const int64_t tasks = parts(count, BLOCK, tasks_for(PASS * count * group.size(), pool));
  share(pool, tasks, [&](int64_t task) {
    const Range range = part(task, tasks, count, BLOCK);
    Scratch room(group.room());
    for (int64_t i = range.from; i < range.to; i += BLOCK) group.run(i, std::min(BLOCK, range.to - i), room.data);
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_group, guarded(group),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets()
                                  .Attr<Integers>("steps").Attr<Integers>("gives"));
