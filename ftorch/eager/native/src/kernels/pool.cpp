// Max pooling of float32 planes, and its gradient.

#include <cstring>
#include <limits>
#include <string>

#include "operands.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

constexpr double READ = 16, ADD = 128;  // operations in whose time an element is compared; added to
constexpr int64_t BEHIND = 64;          // elements behind the last that vectors of windows read

// An element of a window: what it adds to the place of the window in the padded plane, and in the plane.
struct Tap {
  int64_t read;
  int32_t place;
};

struct Pool {
  int64_t extent[3], out[3], window[3], stride[3], low[3], dilation[3];
  int64_t padded[3];  // extent with what is around it
  std::vector<Tap> taps;
  std::vector<int32_t> first[3];  // of each window: what its first element in the plane adds to its place there

  Pool(Integers extent, Integers out, Integers window, Integers stride, Integers low, Integers dilation) {
    for (int d = 0; d < 3; d++) {
      this->extent[d] = extent[d], this->out[d] = out[d], this->window[d] = window[d];
      this->stride[d] = stride[d], this->low[d] = low[d], this->dilation[d] = dilation[d];
      padded[d] = std::max(low[d] + extent[d], (out[d] - 1) * stride[d] + (window[d] - 1) * dilation[d] + 1);
    }
    const int64_t inner[3] = {extent[1] * extent[2], extent[2], 1};
    for (int d = 0; d < 3; d++)
      for (int64_t i = 0; i < out[d]; i++) {
        const int64_t before = std::max<int64_t>(0, low[d] - i * stride[d]);
        first[d].push_back((before + dilation[d] - 1) / dilation[d] * dilation[d] * inner[d]);
      }
    first[2].resize(out[2] + BEHIND);  // whole vectors are read
    for (int64_t z = 0; z < window[0]; z++)
      for (int64_t y = 0; y < window[1]; y++)
        for (int64_t x = 0; x < window[2]; x++) {
          const int64_t at[3] = {z * dilation[0], y * dilation[1], x * dilation[2]};
          taps.push_back({(at[0] * padded[1] + at[1]) * padded[2] + at[2],
                          int32_t((at[0] * extent[1] + at[1]) * extent[2] + at[2])});
        }
  }

  static int64_t product(const int64_t* v) { return v[0] * v[1] * v[2]; }
  bool pads() const { return product(padded) != product(extent); }
  // Where a row of windows begins in the padded plane, and in the plane (perhaps before it).
  int64_t row(int64_t z, int64_t y) const { return (z * stride[0] * padded[1] + y * stride[1]) * padded[2]; }
  int64_t target(int64_t z, int64_t y) const {
    return ((z * stride[0] - low[0]) * extent[1] + y * stride[1] - low[1]) * extent[2] - low[2];
  }
  // How many elements from a plane's beginning on vectors of windows read at most.
  int64_t reach() const { return product(padded) + BEHIND * stride[2]; }

  void pad(const float* x, float* to) const {
    for (int64_t z = 0; z < extent[0]; z++)
      for (int64_t y = 0; y < extent[1]; y++, x += extent[2])
        std::memcpy(to + ((z + low[0]) * padded[1] + y + low[1]) * padded[2] + low[2], x, extent[2] * sizeof(float));
  }
};

// use(z, y) for all rows of windows.
template <typename Use>
inline void each_row(const Pool& p, const Use& use) {
  for (int64_t z = 0; z < p.out[0]; z++)
    for (int64_t y = 0; y < p.out[1]; y++) use(z, y);
}

#define KERNELS "kernels/pool.inc"
#include "vectors/instructions.inc"

namespace best {
const auto pool_plane = BEST(pool_plane);
const auto pool_plane_gradient = BEST(pool_plane_gradient);
}  // namespace best

// use(planes, i, plane i, where it may be read beyond its end) for i in `planes`, those of a task; `each`: operations of one.
template <typename Use>
void each_plane(ffi::ThreadPool& pool, const Pool& p, Floats x, double each, const Use& use) {
  const int64_t size = Pool::product(p.extent), count = x.element_count() / size;
  const int64_t tasks = parts(count, 1, tasks_for(each * count, pool));
  share(pool, tasks, [&](int64_t task) {
    const Range planes = part(task, tasks, count, 1);
    Scratch room(p.reach());
    std::fill(room.data, room.data + p.reach(), -std::numeric_limits<float>::infinity());
    for (int64_t i = planes.from; i < planes.to; i++) {
      const float* from = x.typed_data() + i * size;
      if (p.pads() || i * size + p.reach() > int64_t(x.element_count())) p.pad(from, room.data), from = room.data;
      use(planes, i, from);
    }
  });
}

// The attributes have three numbers each.
ffi::Error max_pool(ffi::ThreadPool pool, Floats x, Result y, Integers extent, Integers out, Integers window,
                    Integers stride, Integers low, Integers dilation) {
  const Pool p(extent, out, window, stride, low, dilation);
  const int64_t results = Pool::product(p.out);
  each_plane(pool, p, x, READ * results * p.taps.size(), [&](Range planes, int64_t i, const float* from) {
    best::pool_plane(p, from, y->typed_data() + i * results, y->typed_data() + planes.to * results);
  });
  return ffi::Error::Success();
}

// masked: whether what is not positive has no gradient.
ffi::Error max_pool_gradient(ffi::ThreadPool pool, Floats grad, Floats x, Result result, Integers extent, Integers out,
                             Integers window, Integers stride, Integers low, Integers dilation, Integers masked) {
  const Pool p(extent, out, window, stride, low, dilation);
  const int64_t results = Pool::product(p.out), size = Pool::product(p.extent);
  const double each = (READ * p.taps.size() + ADD) * results;
  each_plane(pool, p, x, each, [&](Range, int64_t i, const float* from) {
    float* to = result->typed_data() + i * size;
    std::memset(to, 0, size * sizeof(float));
    best::pool_plane_gradient(p, from, grad.typed_data() + i * results, grad.typed_data() + grad.element_count(), to, masked[0]);
  });
  return ffi::Error::Success();
}

}  // namespace

#define POOL(...) \
  ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().__VA_ARGS__.Ret<Floats>().Attr<Integers>("extent").Attr<Integers>("out") \
      .Attr<Integers>("window").Attr<Integers>("stride").Attr<Integers>("low").Attr<Integers>("dilation")

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_max_pool, guarded(max_pool), POOL(Arg<Floats>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_max_pool_gradient, guarded(max_pool_gradient),
                              POOL(Arg<Floats>().Arg<Floats>()).Attr<Integers>("masked"));
