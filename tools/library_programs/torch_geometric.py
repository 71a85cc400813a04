# needs: torch_geometric
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

torch.manual_seed(0)
edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
graphs = [Data(x=torch.randn(3, 4), edge_index=edges, y=torch.tensor([i % 2])) for i in range(4)]
first, second, head = GCNConv(4, 8), GATConv(8, 8, heads=2, concat=False), torch.nn.Linear(8, 2)
for batch in DataLoader(graphs, batch_size=2):
    h = second(first(batch.x, batch.edge_index).relu(), batch.edge_index)
    out = head(global_mean_pool(h, batch.batch))
    torch.nn.functional.cross_entropy(out, batch.y).backward()
print("done", out.shape)
