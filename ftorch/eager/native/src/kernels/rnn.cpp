// An LSTM layer's time loop, and its gradient's, each as one custom call: XLA spends more on a loop's steps
// than on what they compute.

#include <cstring>
#include <string>

#include "operands.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Truths = ffi::Buffer<ffi::PRED>;
using Result = ffi::Result<Floats>;

struct Steps {
  int64_t count, batch, hidden, reverse;
  const bool* exists;  // which sequences of a packed batch are in which time, (count, batch); null: all
  int64_t at(int64_t n) const { return reverse ? count - 1 - n : n; }  // the n-th step's place

  // Runs use(from, to, whether they exist) for parts of the sequences in `rows` at time t, one after the other.
  template <typename Use>
  void each_run(int64_t t, Range rows, const Use& use) const {
    if (!exists) return use(rows.from, rows.to, true);
    const bool* here = exists + t * batch;
    for (int64_t from = rows.from, to; from < rows.to; from = to) {
      for (to = from + 1; to < rows.to && here[to] == here[from];) to++;
      use(from, to, here[from]);
    }
  }
};

#define KERNELS "kernels/rnn.inc"
#include "vectors/instructions.inc"

namespace best {
const auto pack_panels = BEST(pack_panels);
const auto lstm = BEST(lstm);
const auto lstm_gradient = BEST(lstm_gradient);
const int64_t width = BEST(WIDTH);
}  // namespace best

Steps steps_of(const Floats& cells, const Truths& exists, int64_t reverse) {
  const auto sizes = cells.dimensions();
  return {sizes[0], sizes[1], sizes[2], reverse, exists.element_count() ? exists.typed_data() : nullptr};
}

// Runs use(rows) for parts of the batch: a sequence's steps need no other sequence, so that threads meet once.
template <typename Use>
void each_part(ffi::ThreadPool& pool, const Steps& s, const Use& use) {
  constexpr double ACTIVATIONS = 200;  // operations of an element's
  const double operations = double(s.count) * s.batch * s.hidden * (8 * s.hidden + ACTIVATIONS);
  const int64_t tasks = parts(s.batch, 4, std::min(tasks_for(operations, pool), pool.num_threads()));
  share(pool, tasks, [&](int64_t task) { use(part(task, tasks, s.batch, 1)); });
}

ffi::Error lstm(ffi::ThreadPool pool, Floats gates_x, Floats h0, Floats c0, Floats weight, Truths exists,
                Result gates, Result hidden, Result cells, int64_t reverse) {
  const Steps s = steps_of(*cells, exists, reverse);
  Scratch packed(s.hidden * (4 * s.hidden + best::width));
  best::pack_panels(4 * s.hidden, s.hidden, weight.typed_data(), 1, s.hidden, packed.data);
  each_part(pool, s, [&](Range rows) {
    best::lstm(s, rows, gates_x.typed_data(), h0.typed_data(), c0.typed_data(), packed.data,
               gates->typed_data(), hidden->typed_data(), cells->typed_data());
  });
  return ffi::Error::Success();
}

// Gradients that are zeros are empty.
const float* if_any(const Floats& x) { return x.element_count() ? x.typed_data() : nullptr; }

ffi::Error lstm_gradient(ffi::ThreadPool pool, Floats gates, Floats cells, Floats c0, Floats d_hidden,
                         Floats d_cells, Floats d_own, Floats d_h, Floats d_c, Floats weight, Truths exists,
                         Result d_gates, Result d_h0, Result d_c0, int64_t reverse) {
  const Steps s = steps_of(cells, exists, reverse);
  Scratch packed(4 * s.hidden * (s.hidden + best::width));
  best::pack_panels(s.hidden, 4 * s.hidden, weight.typed_data(), s.hidden, 1, packed.data);
  std::memcpy(d_h0->typed_data(), d_h.typed_data(), d_h.size_bytes());
  std::memcpy(d_c0->typed_data(), d_c.typed_data(), d_c.size_bytes());
  each_part(pool, s, [&](Range rows) {
    best::lstm_gradient(s, rows, gates.typed_data(), cells.typed_data(), c0.typed_data(), if_any(d_hidden),
                        if_any(d_cells), if_any(d_own), packed.data, d_gates->typed_data(),
                        d_h0->typed_data(), d_c0->typed_data());
  });
  return ffi::Error::Success();
}

}  // namespace

#define LOOP ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
#define FOUR Arg<Floats>().Arg<Floats>().Arg<Floats>().Arg<Floats>()
#define THREE Ret<Floats>().Ret<Floats>().Ret<Floats>().Attr<int64_t>("reverse")

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_lstm, guarded(lstm), LOOP.FOUR.Arg<Truths>().THREE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_lstm_gradient, guarded(lstm_gradient),
                              LOOP.FOUR.FOUR.Arg<Floats>().Arg<Truths>().THREE);
