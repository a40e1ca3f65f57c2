package ecs

import (
	"encoding/base64"
	"time"
)

// pageSize is how much a List answers with at most, and where the caller names no size.
const pageSize = 100

// page cuts the next page out of a sorted list. A token is the last item that was given, so that items which come and
// go in between neither repeat nor hide others.
func page(items []string, token *string, size *int32, descending bool) ([]string, *string, error) {
	n := int(value(size))
	if size == nil {
		n = pageSize
	}
	if n < 1 || n > pageSize {
		return nil, nil, invalid("maxResults must be between 1 and %d.", pageSize)
	}
	if value(token) != "" {
		last, err := base64.RawURLEncoding.DecodeString(*token)
		if err != nil {
			return nil, nil, invalid("Invalid token.")
		}
		for len(items) > 0 && (items[0] == string(last) || items[0] < string(last) != descending) {
			items = items[1:]
		}
	}
	if len(items) <= n {
		return items, nil, nil
	}
	next := base64.RawURLEncoding.EncodeToString([]byte(items[n-1]))
	return items[:n], &next, nil
}

// instant is nil for a time that has not come.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
