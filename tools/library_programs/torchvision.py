# needs: torchvision
import torch
from torchvision import models
from torchvision.ops import (
    box_iou,
    deform_conv2d,
    nms,
    ps_roi_align,
    ps_roi_pool,
    roi_align,
    roi_pool,
)
from torchvision.ops.roi_align import _roi_align
from torchvision.transforms import v2

torch.manual_seed(0)
boxes, scores = torch.rand(50, 4) * 20, torch.rand(50)
boxes[:, 2:] += boxes[:, :2]
overlap, kept = box_iou(boxes, boxes), []
for i in scores.argsort(descending=True).tolist():
    if all(overlap[i, j] <= 0.3 for j in kept):
        kept.append(i)
assert nms(boxes, scores, 0.3).tolist() == kept
x = torch.randn(1, 8, 12, 12, dtype=torch.double, requires_grad=True)
rois = torch.tensor([[0, 1.0, 1, 8, 9], [0, 0, 0, 3, 7]], dtype=torch.double)
assert torch.allclose(roi_align(x, rois, 2, 1.0, 2, True), _roi_align(x, rois, 1.0, 2, 2, 2, True))
for function in (roi_align, roi_pool, ps_roi_align, ps_roi_pool):
    assert torch.autograd.gradcheck(lambda x: function(x, rois, 2), (x,), fast_mode=True)
weight = torch.randn(4, 8, 3, 3, dtype=torch.double)
offset = torch.zeros(1, 18, 10, 10, dtype=torch.double)
assert torch.allclose(deform_conv2d(x, offset, weight), torch.nn.functional.conv2d(x, weight))
model = models.resnet18(num_classes=5)
model(v2.Resize(32)(torch.rand(2, 3, 40, 40))).sum().backward()
detector = models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None)
target = {"boxes": torch.tensor([[10.0, 10, 80, 80]]), "labels": torch.tensor([1])}
losses = detector([torch.rand(3, 96, 96)], [target])
sum(losses.values()).backward()
found = detector.eval()([torch.rand(3, 96, 96)])
assert set(found[0]) == {"boxes", "labels", "scores"}
print("done", sorted(losses))
