package input

import (
	"crypto/sha256"
	"encoding/base64"
)

// PageToken returns the nextToken of a page whose last item is last. list names the list and its
// filters. The token is opaque to callers and good for the same list only.
func PageToken(list, last string) string {
	return base64.RawURLEncoding.EncodeToString(append(tokenChecksum(list, last), last...))
}

// checksumSize makes a forged or mistaken token detectable. It is no protection: a caller could
// have asked for the items behind any name.
const checksumSize = 9

func tokenChecksum(list, last string) []byte {
	sum := sha256.Sum256([]byte("nextToken\x00" + list + "\x00" + last))
	return sum[:checksumSize]
}

// PageStart returns the item that a page begins behind, empty for no token. A token of another
// list, or one that Berth never made, is an InvalidParameterException.
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

// PageSize returns how many items a page has at most: 1 to 100, or otherwise if the caller says
// nothing.
func PageSize(maxResults *int32, otherwise int) (int, error) {
	switch {
	case maxResults == nil:
		return otherwise, nil
	case *maxResults < 1 || *maxResults > 100:
		return 0, Invalid("maxResults is %d, but must be between 1 and 100.", *maxResults)
	}
	return int(*maxResults), nil
}
