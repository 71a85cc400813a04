// An LSTM layer's time loop, and its gradient's, each as one custom call: XLA spends more on a loop's steps
// than on what they compute.

#include <cstring>
#include <string>

#include "memory.h"
#include "calls.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

struct Steps {
  int64_t count, batch, hidden, reverse;
  int64_t at(int64_t n) const { return reverse ? count - 1 - n : n; }  // the n-th step's place
};

#define KERNELS "rnn.inc"
#include "instructions.inc"

const auto run = BEST(lstm);
const auto run_gradient = BEST(lstm_gradient);

Steps steps_of(const Floats& cells, int64_t reverse) {
  const auto sizes = cells.dimensions();
  return {sizes[0], sizes[1], sizes[2], reverse};
}

ffi::Error lstm(Floats gates_x, Floats h0, Floats c0, Floats weight, Result gates, Result hidden,
                Result cells, int64_t reverse) {
  run(steps_of(*cells, reverse), gates_x.typed_data(), h0.typed_data(), c0.typed_data(),
               weight.typed_data(), gates->typed_data(), hidden->typed_data(), cells->typed_data());
  return ffi::Error::Success();
}

ffi::Error lstm_gradient(Floats gates, Floats cells, Floats c0, Floats d_hidden, Floats d_cells, Floats d_own,
                         Floats d_h, Floats d_c, Floats weight, Result d_gates, Result d_h0, Result d_c0,
                         int64_t reverse) {
  std::memcpy(d_h0->typed_data(), d_h.typed_data(), d_h.size_bytes());
  std::memcpy(d_c0->typed_data(), d_c.typed_data(), d_c.size_bytes());
  run_gradient(steps_of(cells, reverse), gates.typed_data(), cells.typed_data(), c0.typed_data(),
                        d_hidden.typed_data(), d_cells.typed_data(), d_own.typed_data(), weight.typed_data(),
                        d_gates->typed_data(), d_h0->typed_data(), d_c0->typed_data());
  return ffi::Error::Success();
}

}  // namespace

#define FOUR Arg<Floats>().Arg<Floats>().Arg<Floats>().Arg<Floats>()
#define THREE Ret<Floats>().Ret<Floats>().Ret<Floats>().Attr<int64_t>("reverse")

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_lstm, guarded(lstm), ffi::Ffi::Bind().FOUR.THREE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_lstm_gradient, guarded(lstm_gradient),
                              ffi::Ffi::Bind().FOUR.FOUR.Arg<Floats>().THREE);
