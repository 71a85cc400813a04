// Float32 matrix products and convolutions as custom calls of XLA programs on the CPU.
//
// XLA's own are Eigen's, at about half of a core's speed. These keep a tile of results in registers
// (`gemm.inc`), read their operands through strides, so that no transpose is written to memory, and share
// the work with the threads of the program that calls.

#include <cstring>
#include <string>

#include "products/convolution.h"
#include "operands.h"
#include "products/product.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

// --- one set of kernels for each set of instructions ---------------------------------------

#define KERNELS "products/kernels.inc"
#include "vectors/instructions.inc"

namespace best {
const auto multiply = BEST(multiply);
const auto widen = BEST(widen);
const auto pack = BEST(pack);
const auto pad_image = BEST(pad_image);
const auto pack_weight = BEST(pack_weight);
const auto gather_multiply = BEST(gather_multiply);
const auto finish = BEST(finish);
const auto lay_out = BEST(lay_out);
const auto depthwise = BEST(depthwise);
const auto depthwise_gradient = BEST(depthwise_gradient);
const int64_t vector = BEST(W), width = BEST(WIDTH), rows = BEST(ROWS);
}  // namespace best

// --- handlers ------------------------------------------------------------------------------

constexpr double WRITE = 8;  // operations in whose time an element of a result is written, or changed

// What a product costs, in operations: those of few rows wait for memory.
double cost(int64_t m, int64_t n, int64_t depth) {
  constexpr double READ = 24;  // operations in the time that an element takes, of few
  return std::max(2.0 * m * n * depth, READ * (double(m) * depth + double(depth) * n));
}

// What of a call's results becomes (`Change`): the codes, their operands, and how far apart those lie along four loops.
struct Following {
  Integers codes, places;
  std::vector<const float*> read;
  Following() = default;
  Following(Integers after, Integers places, ffi::RemainingArgs& others, const float* result) : codes(after), places(places) {
    for (size_t s = 0, next = 0; s < after.size(); s++)  // a rectifier reads no operand
      read.push_back(after[s] == RECTIFY ? result : others.get<Floats>(next++)->typed_data());
  }
  // From a place in each loop on.
  Changes at(int64_t u, int64_t v, int64_t row, int64_t column) const {
    Changes changes;
    for (size_t s = 0; s < read.size(); s++) {
      const int64_t* step = places.begin() + 4 * s;
      changes.push_back({codes[s], read[s] + u * step[0] + v * step[1] + row * step[2] + column * step[3], step[2], step[3]});
    }
    return changes;
  }
};

void multiply_all(ffi::ThreadPool pool, const Product& p, const float* a, const float* b, float* c,
                  const Following& following) {
  const int64_t m = p.sizes[0], n = p.sizes[1], depth = p.sizes[2], batches = p.outer[0] * p.outer[1];
  const int64_t wanted = tasks_for((cost(m, n, depth) + WRITE * m * n * (1 + following.codes.size())) * batches, pool);
  int64_t down = 1, across = 1, chunk = 1;
  if (batches < wanted) {
    // Few blocks, about as wide as high, so that least is packed and read.
    const int64_t most = std::max<int64_t>(2 * pool.num_threads(), cost(m, n, depth) * batches / LONGEST);
    const int64_t each = (std::min(wanted, most) + batches - 1) / batches;
    while (2 * across <= each && n > 2 * across * best::width && n * each > m * across * across) across *= 2;
    down = parts(m, best::rows, (each + across - 1) / across);
    across = parts(n, best::width, (each + down - 1) / down);
  } else {
    chunk = (batches + wanted - 1) / wanted;
  }
  const int64_t grid = down * across, tasks = (batches + chunk - 1) / chunk * grid;
  share(pool, tasks, [&](int64_t task) {
    const Range rows = part(task % down, down, m, best::rows);
    const Range columns = part(task / down % across, across, n, best::vector);
    const int64_t first = task / grid * chunk, last = std::min(batches, first + chunk);
    for (int64_t i = first; i < last; i++) {
      const int64_t u = i / p.outer[1], v = i % p.outer[1];
      const Matrix x{a + u * p.left[0] + v * p.left[1] + rows.from * p.left[2], p.left[2], p.left[3]};
      const Matrix y{b + u * p.right[0] + v * p.right[1] + columns.from * p.right[3], p.right[2], p.right[3]};
      best::multiply(rows.to - rows.from, columns.to - columns.from, depth, x, y,
                     c + u * p.result[0] + v * p.result[1] + rows.from * p.result[2] + columns.from, p.result[2],
                     following.at(u, v, rows.from, columns.from), m, n);
    }
  });
}

// sizes: m, n, depth; outer: two batch sizes; left, right: two batch steps, the rows', the columns'; result: two
// batch steps, the rows'. after: what becomes of the results (`Change`), places: of each two batch steps, the
// rows', the columns'. Behind a and b are the operands of these; those behind them are there for the order of calls.
ffi::Error multiply_call(ffi::ThreadPool pool, Floats a, Floats b, ffi::RemainingArgs others, Result c, Integers sizes,
                         Integers outer, Integers left, Integers right, Integers result, Integers after,
                         Integers places) {
  const Following following(after, places, others, c->typed_data());
  multiply_all(pool, product_of(sizes, outer, left, right, result), a.typed_data(), b.typed_data(), c->typed_data(), following);
  return ffi::Error::Success();
}

// c (m, n) = a (m, depth) b (depth, n) of few rows: memory decides, so b is read in its 16 bits, some columns at a time, and
// multiplied in the first or second cache. left, right: how far apart the rows and the terms of a, the terms and the columns of b
// are; of b's one is 1.
ffi::Error multiply_narrow(ffi::ThreadPool pool, Floats a, ffi::AnyBuffer b, Result c, Integers sizes, Integers left,
                           Integers right) {
  constexpr int64_t LINES = 1 << 12, PANELS = 1 << 15;  // elements of a block, of columns that lie as lines or not
  const int64_t m = sizes[0], n = sizes[1], depth = sizes[2];
  const bool half = b.element_type() == ffi::DataType::F16, is_turned = right[0] == 1;
  const auto* from = static_cast<const uint16_t*>(b.untyped_data());
  const int64_t block = std::min(n, is_turned ? std::max<int64_t>(4, LINES / depth / 4 * 4)
                                              : std::max<int64_t>(best::width, PANELS / depth / best::width * best::width));
  const int64_t tasks = parts(n, best::width, tasks_for(cost(m, n, depth), pool));
  share(pool, tasks, [&](int64_t task) {
    const Range columns = part(task, tasks, n, best::width);
    Scratch wide(block * depth);
    for (int64_t j = columns.from; j < columns.to; j += block) {
      const int64_t count = std::min(block, columns.to - j);
      if (is_turned)
        for (int64_t i = 0; i < count; i++) best::widen(depth, from + (j + i) * right[1], wide.data + i * depth, half);
      else
        for (int64_t k = 0; k < depth; k++) best::widen(count, from + k * right[0] + j, wide.data + k * count, half);
      const Matrix y = is_turned ? Matrix{wide.data, 1, depth} : Matrix{wide.data, count, 1};
      best::multiply(m, count, depth, {a.typed_data(), left[0], left[1]}, y, c->typed_data() + j, n, {}, m, n);
    }
  });
  return ffi::Error::Success();
}

// Outputs in panels of about the same number of vectors.
struct Panels {
  int64_t outputs, count, vectors;
  explicit Panels(int64_t outputs) : outputs(outputs) {
    vectors = (outputs + best::vector - 1) / best::vector;
    count = (vectors * best::vector + best::width - 1) / best::width;
  }
  int64_t first(int64_t i) const { return vectors * i / count * best::vector; }
  int64_t width(int64_t i) const { return first(i + 1) - first(i); }
  int64_t valid(int64_t i) const { return std::min(outputs, first(i + 1)) - first(i); }
  int64_t all() const { return vectors * best::vector; }
};

// Runs use(i, planes, room) for i in [0, count), in tasks of about the same length, with memory for an image's
// planes, zero at first, and for sums as long.
template <typename Use>
void each_planes(ffi::ThreadPool& pool, const Convolution& c, int64_t count, const Use& use) {
  const double operations = 2.0 * c.images * c.groups * c.channels * c.outputs * c.pixels() * product(c.window);
  const int64_t tasks = parts(count, 1, tasks_for(4 * operations, pool));
  share(pool, tasks, [&](int64_t task) {
    const Range range = part(task, tasks, count, 1);
    Scratch planes(c.channels * c.planes()), room(c.planes() + 64);
    std::memset(planes.data, 0, c.channels * c.planes() * sizeof(float));
    for (int64_t i = range.from; i < range.to; i++) use(i, planes.data, room.data);
  });
}

void depthwise(ffi::ThreadPool& pool, const Convolution& c, const float* x, const float* weight,
               const Following& following, float* y) {
  std::vector<std::vector<int64_t>> offsets;
  for (const Phase& phase : c.phases) offsets.push_back(c.taps_in_planes(phase));
  each_planes(pool, c, c.images * c.groups, [&](int64_t i, float* planes, float* room) {
    for (int64_t k = 0; k < c.channels; k++)
      best::lay_out(c, x + (i * c.channels + k) * c.image(), planes + k * c.planes());
    for (int64_t o = 0; o < c.outputs; o++)
      for (size_t p = 0; p < c.phases.size(); p++)
        best::depthwise(c, c.phases[p], planes, offsets[p].data(),
                          weight + i % c.groups * c.by_group + o * c.by_output, room,
                          y + (i * c.outputs + o) * c.pixels());
    best::finish(following.at(i / c.groups, i % c.groups, 0, 0), 0, 0, c.outputs, c.pixels(),
                 y + i * c.outputs * c.pixels(), c.pixels());
  });
}

void depthwise_gradient(ffi::ThreadPool& pool, const Convolution& c, const float* x, const float* grad,
                        float* result) {
  const int64_t taps = product(c.window);
  const auto offsets = c.taps_in_planes(c.phases[0]);
  std::memset(result, 0, c.groups * c.outputs * taps * sizeof(float));
  each_planes(pool, c, c.groups, [&](int64_t g, float* planes, float* room) {
    for (int64_t n = 0; n < c.images; n++) {
      best::lay_out(c, x + (n * c.groups + g) * c.image(), planes);
      for (int64_t o = 0; o < c.outputs; o++)
        best::depthwise_gradient(c, c.phases[0], planes, offsets.data(),
                                   grad + ((n * c.groups + g) * c.outputs + o) * c.pixels(), room,
                                   result + (g * c.outputs + o) * taps);
    }
  });
}

// sizes: images, groups, channels and outputs of a group, the weight's steps by output, channel and group,
// whether its windows are read backwards. after, places, and the operands behind the weight: as above; the loops are
// images, groups, outputs, pixels.
ffi::Error convolve(ffi::ThreadPool pool, Floats x, Floats weight, ffi::RemainingArgs others, Result y, Integers sizes,
                    Integers extent, Integers out, Integers window, Integers stride, Integers low, Integers dilation,
                    Integers spread, Integers after, Integers places_after) {
  const Convolution c(sizes, extent, out, window, stride, low, dilation, spread);
  const Panels panels(c.outputs);
  const int64_t pixels = c.pixels(), parallel = c.images * c.groups, padded = c.channels * c.padded_image();
  const int64_t image = c.channels * c.image();
  const Following following(after, places_after, others, y->typed_data());
  if (c.has_few_outputs()) {
    depthwise(pool, c, x.typed_data(), weight.typed_data(), following, y->typed_data());
    return ffi::Error::Success();
  }
  for (const Phase& phase : c.phases) {
    const auto rows = c.of_pixels(phase), terms = c.of_taps(phase), places = c.of_results(phase);
    const int64_t count = rows.size(), depth = terms.size();
    const int64_t wanted = tasks_for(2.0 * parallel * count * c.outputs * depth, pool);
    const int64_t blocks = parts(count, best::rows, std::max<int64_t>(1, wanted / parallel));
    const bool ahead = c.pads() && blocks > 1;  // an image of several tasks is padded once, before them
    Scratch weights(c.groups * panels.all() * depth), images(ahead ? parallel * padded : 0);
    const int64_t packs = c.groups * panels.count, before = packs + (ahead ? parallel : 0);
    const auto prepare = [&](int64_t i) {
      if (i >= packs) {
        best::pad_image(c, x.typed_data() + (i - packs) * image, images.data + (i - packs) * padded, false);
        return;
      }
      const int64_t g = i / panels.count, p = i % panels.count;
      best::pack_weight(c, phase, weight.typed_data() + g * c.by_group, panels.first(p), panels.valid(p),
                          panels.width(p), weights.data + (g * panels.all() + panels.first(p)) * depth);
    };
    if (wanted > 1) share(pool, before, prepare);
    else for (int64_t i = 0; i < before; i++) prepare(i);
    const int64_t all = parallel * blocks, chunk = std::max<int64_t>(1, all / (4 * wanted));
    share(pool, (all + chunk - 1) / chunk, [&](int64_t task) {
      Scratch own(c.pads() && !ahead ? padded : 0);
      for (int64_t i = task * chunk; i < std::min(all, (task + 1) * chunk); i++) {
        const int64_t outer = i / blocks, g = outer % c.groups;
        const Range range = part(i % blocks, blocks, count, best::rows);
        const float* from = x.typed_data() + outer * image;
        if (ahead) from = images.data + outer * padded;
        else if (c.pads()) best::pad_image(c, from, own.data, i > task * chunk), from = own.data;
        for (int64_t p = 0; p < panels.count; p++)
          best::gather_multiply(from, rows.data() + range.from, range.to - range.from, terms.data(), depth,
                                  weights.data + (g * panels.all() + panels.first(p)) * depth, panels.width(p),
                                  panels.valid(p), places.data() + range.from,
                                  y->typed_data() + (outer * c.outputs + panels.first(p)) * pixels, pixels, false,
                                  following.at(outer / c.groups, g, panels.first(p), 0));
      }
    });
  }
  return ffi::Error::Success();
}

// sizes: as above; the steps are the result's. Further operands are waited for, not read.
ffi::Error weight_gradient(ffi::ThreadPool pool, Floats x, Floats grad, ffi::RemainingArgs, Result result, Integers sizes,
                           Integers extent, Integers out, Integers window, Integers stride, Integers low,
                           Integers dilation, Integers spread) {
  const Convolution c(sizes, extent, out, window, stride, low, dilation, spread);
  if (c.channels == 1 && c.has_few_outputs() && c.by_group == c.outputs * product(c.window)) {
    depthwise_gradient(pool, c, x.typed_data(), grad.typed_data(), result->typed_data());
    return ffi::Error::Success();
  }
  const Panels panels(c.outputs);
  const Phase& phase = c.phases[0];
  const auto rows = c.of_taps(phase), terms = c.of_pixels(phase);
  const int64_t count = rows.size(), pixels = terms.size(), padded = c.channels * c.padded_image();
  const int64_t image = c.channels * c.image(), each = c.outputs * count;
  std::vector<int64_t> places(count);
  const int64_t taps = phase.taps.size();
  for (int64_t i = 0; i < count; i++) places[i] = i / taps * c.by_channel + i % taps;
  const double operations = 2.0 * c.images * pixels * c.groups * each;
  const int64_t wanted = tasks_for(operations, pool);
  // Sums over parts of the images, in an order that does not depend on the threads.
  const int64_t splits = std::clamp<int64_t>(sums_of(operations) / c.groups, 1, c.images);
  const int64_t blocks = parts(count, best::rows, std::max<int64_t>(1, wanted / (c.groups * splits)));
  Scratch sums((splits - 1) * c.groups * each);
  share(pool, c.groups * splits * blocks, [&](int64_t task) {
    const int64_t block = task % blocks, g = task / blocks % c.groups, split = task / (blocks * c.groups);
    const Range images = part(split, splits, c.images, 1), range = part(block, blocks, count, best::rows);
    float* target = (split ? sums.data + (split - 1) * c.groups * each : result->typed_data()) + g * c.by_group;
    Scratch own(c.pads() ? padded : 0), packed(pixels * best::width);
    for (int64_t n = images.from; n < images.to; n++) {
      const float* from = x.typed_data() + (n * c.groups + g) * image;
      if (c.pads()) best::pad_image(c, from, own.data, n > images.from), from = own.data;
      for (int64_t p = 0; p < panels.count; p++) {
        best::pack(grad.typed_data() + ((n * c.groups + g) * c.outputs + panels.first(p)) * pixels, 1, pixels,
                     pixels, panels.valid(p), panels.width(p), packed.data);
        best::gather_multiply(from, rows.data() + range.from, range.to - range.from, terms.data(), pixels,
                                packed.data, panels.width(p), panels.valid(p), places.data() + range.from,
                                target + panels.first(p) * c.by_output, c.by_output, n > images.from, {});
      }
    }
  });
  for (int64_t s = 0; s + 1 < splits; s++)
    for (int64_t i = 0; i < c.groups * each; i++) result->typed_data()[i] += sums.data[s * c.groups * each + i];
  return ffi::Error::Success();
}

}  // namespace

void multiply(ffi::ThreadPool pool, const Product& product, const float* a, const float* b, float* c) {
  multiply_all(pool, product, a, b, c, {});
}

#define CALL ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<Floats>()
#define CONVOLUTION \
  Ret<Floats>().Attr<Integers>("sizes").Attr<Integers>("extent").Attr<Integers>("out").Attr<Integers>("window") \
      .Attr<Integers>("stride").Attr<Integers>("low").Attr<Integers>("dilation").Attr<Integers>("spread")

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply, guarded(multiply_call),
                              CALL.RemainingArgs().Ret<Floats>().Attr<Integers>("sizes").Attr<Integers>("outer")
                                  .Attr<Integers>("left").Attr<Integers>("right").Attr<Integers>("result")
                                  .Attr<Integers>("after").Attr<Integers>("places"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_convolve, guarded(convolve),
                              CALL.RemainingArgs().CONVOLUTION.Attr<Integers>("after").Attr<Integers>("places"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_weight_gradient, guarded(weight_gradient), CALL.RemainingArgs().CONVOLUTION);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_multiply_narrow, guarded(multiply_narrow),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<ffi::AnyBuffer>().Ret<Floats>()
                                  .Attr<Integers>("sizes").Attr<Integers>("left").Attr<Integers>("right"));
