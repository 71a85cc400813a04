# needs: keras
import os
import tempfile

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.Input((16, 16, 1)), layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(2), layers.BatchNormalization(),
    layers.Flatten(), layers.Dropout(0.2), layers.Dense(4, activation="softmax"),
])
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
x, y = np.random.rand(64, 16, 16, 1).astype("float32"), np.random.randint(0, 4, 64)
losses = model.fit(x, y, batch_size=16, epochs=4, verbose=0).history["loss"]
print(losses)
assert losses[-1] < losses[0]
with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model.keras")
    again = keras.models.load_model(f"{folder}/model.keras")
assert np.allclose(again.predict(x[:4], verbose=0), model.predict(x[:4], verbose=0), atol=1e-6)
tokens = keras.Input((12,), dtype="int32")
embedded = layers.Embedding(50, 16)(tokens)
attended = layers.LayerNormalization()(layers.MultiHeadAttention(2, 8)(embedded, embedded) + embedded)
model = keras.Model(tokens, layers.Dense(1)(layers.Bidirectional(layers.LSTM(8))(attended)))
model.compile("rmsprop", "mse")
losses = model.fit(np.random.randint(0, 50, (32, 12)), np.random.rand(32), epochs=3, verbose=0).history["loss"]
assert losses[-1] < losses[0]
