// Elementwise programs as custom calls, so that XLA's programs give the bits that the host tier gives.

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <vector>

#include "calls.h"
#include "elementwise/elementwise.h"
#include "threads/threads.h"

using namespace elementwise;

namespace {

// Reads a call's integers one after the other.
struct Reader {
  Integers from;
  size_t at = 0;
  int64_t next() {
    if (at >= from.size()) throw std::invalid_argument("an elementwise program that ends too soon");
    return from[at++];
  }
  int64_t below(int64_t bound) {
    const int64_t value = next();
    if (value < 0 || value >= bound) throw std::invalid_argument("a number that elementwise programs do not have");
    return value;
  }
};

std::unique_ptr<Program> made_of(Integers code) {
  Reader reader{code};
  std::vector<Type> inputs(reader.next());
  for (Type& type : inputs) type = static_cast<Type>(reader.below(TYPES));
  std::vector<std::pair<Type, uint64_t>> constants(reader.next());
  for (auto& [type, bits] : constants) type = static_cast<Type>(reader.below(TYPES)), bits = reader.next();
  std::vector<Instruction> instructions(reader.next());
  for (Instruction& i : instructions) {
    i.operation = static_cast<Operation>(reader.below(OPERATION_COUNT));
    i.type = static_cast<Type>(reader.below(TYPES)), i.other = static_cast<Type>(reader.below(TYPES));
    i.count = operands_of(i.operation);
    for (int& operand : i.operands) operand = reader.next();
  }
  std::vector<Output> outputs(reader.next());
  for (Output& output : outputs) output.value = reader.next(), output.reduction = reader.next();
  return std::make_unique<Program>(inputs, constants, instructions, outputs);
}

// A program, made when a call's integers come for the first time. When there are many, all are let go of: those that
// still run are held by their calls, and those that come again are made again.
std::shared_ptr<const Program> program_of(Integers code) {
  constexpr size_t MOST = 4096;
  static auto& known = *new std::map<std::vector<int64_t>, std::shared_ptr<const Program>>;
  static auto& mutex = *new std::shared_mutex;
  static thread_local std::vector<int64_t> key;
  key.assign(code.begin(), code.end());
  {
    std::shared_lock<std::shared_mutex> lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  std::shared_ptr<const Program> made = made_of(code);
  std::unique_lock<std::shared_mutex> lock(mutex);
  if (known.size() >= MOST) known.clear();
  return known.emplace(key, std::move(made)).first->second;
}

// program: types of inputs, (type, bits) of constants, instructions of six, (value, reduction) of outputs, each list behind
// its length. dims: for each input how many dimensions it has, and which of the program each is. axes: that are reduced.
ffi::Error elementwise_call(ffi::ThreadPool pool, ffi::RemainingArgs operands, ffi::RemainingRets results, Integers program,
                            Integers shape, Integers dims, Integers axes) {
  const InFloatMode mode(FloatMode::exact());  // as on the host
  const std::shared_ptr<const Program> kept = program_of(program);
  const Program& found = *kept;
  const int ins = operands.size(), outs = results.size(), rank = shape.size();
  if (ins != static_cast<int>(found.input_types().size()) || outs != static_cast<int>(found.results().size()) || rank > MOST_DIMENSIONS)
    return ffi::Error::InvalidArgument("operands that are not those of the elementwise program");
  bool reduced[MOST_DIMENSIONS] = {};
  for (const int64_t axis : axes) reduced[axis] = true;
  std::vector<Array> arrays(ins + outs);
  Reader places{dims};
  for (int i = 0; i < ins; i++) {
    const Any x = *operands.get<Any>(i);
    Array& array = arrays[i];
    array.data = static_cast<char*>(x.untyped_data());
    std::fill(array.steps, array.steps + rank, 0);
    const int64_t own = places.next();
    int64_t step = size_of(found.input_types()[i]);
    const auto extent = [&](int64_t d) { return d < static_cast<int64_t>(x.dimensions().size()) ? x.dimensions()[d] : 2; };
    for (int64_t d = own; d-- > 0; step *= extent(d))
      if (extent(d) != 1) array.steps[places.from[places.at + d]] = step;
    places.at += own;
  }
  for (int o = 0; o < outs; o++) {
    const Output& output = found.results()[o];
    Array& array = arrays[ins + o];
    array.data = static_cast<char*>((*results.get<Any>(o))->untyped_data());
    int64_t step = size_of(found.result_type(output));
    for (int d = rank; d-- > 0;) {
      const bool along = output.reduction >= 0 && reduced[d];
      array.steps[d] = along ? 0 : step;
      if (!along) step *= shape[d];
    }
  }
  found.run(rank, shape.begin(), reduced, arrays.data(), arrays.data() + ins, pool);
  return ffi::Error::Success();
}

// A zero that the compiler does not know: what is added to a product, so that nothing else is contracted with it.
ffi::Error zero(AnyResult result) {
  if (result->element_type() == ffi::F64) *static_cast<double*>(result->untyped_data()) = -0.0;
  else *static_cast<float*>(result->untyped_data()) = -0.0f;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_elementwise, guarded(elementwise_call),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets()
                                  .Attr<Integers>("program").Attr<Integers>("shape").Attr<Integers>("dims")
                                  .Attr<Integers>("axes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_zero, guarded(zero), ffi::Ffi::Bind().Ret<ffi::AnyBuffer>());
