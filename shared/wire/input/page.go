package input

import (
	"crypto/sha256"
	"encoding/base64"
)

// PageToken makes a nextToken of the last item given: opaque, and good for the same list only.
func PageToken(list, last string) string {
	return base64.RawURLEncoding.EncodeToString(append(tokenChecksum(list, last), last...))
}

const checksumSize = 9

func tokenChecksum(list, last string) []byte {
	sum := sha256.Sum256([]byte("nextToken\x00" + list + "\x00" + last))
	return sum[:checksumSize]
}

// PageStart is the item that a nextToken continues after, empty for no token. A token of another
// list, or none of ours, is InvalidParameterException.
func PageStart(list, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < checksumSize || string(tokenChecksum(list,
		string(raw[checksumSize:]))) != string(raw[:checksumSize]) {
		return "", Invalid("Invalid token: %.100q", token)
	}
	return string(raw[checksumSize:]), nil
}

// PageSize is how many items a page has at most.
func PageSize(maxResults *int32, otherwise int) (int, error) {
	switch {
	case maxResults == nil:
		return otherwise, nil
	case *maxResults < 1 || *maxResults > 100:
		return 0, Invalid("maxResults is %d, but must be between 1 and 100.", *maxResults)
	}
	return int(*maxResults), nil
}
