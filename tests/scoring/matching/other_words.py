"""Words by which turns are rephrased."""

SYNONYMS = {
    "great": "wonderful", "happy": "glad", "awesome": "amazing", "really": "truly", "love": "adore",
    "like": "enjoy", "started": "began", "start": "begin", "got": "received", "get": "obtain",
    "big": "large", "small": "little", "kids": "children", "house": "home", "job": "position",
    "help": "assist", "buy": "purchase", "bought": "purchased", "think": "believe", "want": "wish",
    "need": "require", "friends": "pals", "recently": "lately", "yesterday": "previous-day",
    "picture": "image", "photo": "picture", "cool": "neat", "hard": "difficult",
    "tough": "challenging", "easy": "simple", "beautiful": "gorgeous", "important": "significant",
    "talk": "speak", "trip": "journey", "made": "created", "make": "create", "trying": "attempting",
    "try": "attempt", "show": "display", "excited": "thrilled", "inspiring": "uplifting",
    "nice": "pleasant", "good": "fine", "feel": "sense", "feeling": "emotion", "work": "labour",
    "family": "relatives", "day": "date", "time": "moment", "see": "notice", "saw": "noticed",
    "went": "travelled", "going": "heading", "dog": "pup", "game": "match", "games": "matches",
    "movie": "film", "book": "novel", "food": "meals", "learn": "study", "learned": "studied",
    "give": "offer", "gave": "offered", "keep": "retain", "special": "particular",
    "support": "backing", "new": "fresh", "definitely": "certainly", "always": "constantly",
    "maybe": "perhaps", "thanks": "cheers", "everyone": "everybody", "people": "folks",
    "place": "spot",
}  # fmt: skip
THIRD_PERSON = {
    "i": "she", "i'm": "she is", "i've": "she has", "i'd": "she would", "i'll": "she will",
    "my": "her", "me": "her", "mine": "hers", "myself": "herself", "am": "is", "we": "they",
    "we're": "they are", "we've": "they have", "we'll": "they will", "our": "their", "us": "them",
    "love": "loves", "like": "likes", "think": "thinks", "want": "wants", "feel": "feels",
    "have": "has", "need": "needs", "don't": "does not", "can't": "cannot", "it's": "it is",
    "that's": "that is", "gonna": "going to", "wanna": "want to",
}  # fmt: skip
COMMON = {
    "a", "an", "the", "and", "or", "but", "so", "of", "to", "in", "on", "at", "for", "with", "from",
    "by", "it", "its", "is", "was", "are", "were", "be", "been", "i", "you", "he", "she", "they",
    "we", "me", "my", "your", "our", "their", "this", "that", "these", "those", "have", "has",
    "had", "do", "did", "does", "just", "really", "very", "as", "if", "not", "no", "yes", "what",
    "how", "when", "too", "also", "there", "here", "about", "up", "out", "some", "any", "all",
    "can", "could", "would", "will", "im", "thats", "ive", "youre", "dont",
}  # fmt: skip
