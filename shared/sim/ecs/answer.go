package ecs

import (
	"encoding/base64"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// pageSize is the most that a List operation returns, and what it returns if the caller gives no
// size.
const pageSize = 100

// pageAfterToken sorts the items and returns a page of them, and the token of the next page, nil
// after the last. The token is the page's last item, so that items which are added or removed
// between two calls make no other item appear twice or not at all.
func pageAfterToken(items []string, token *string, size *int32, descending bool) ([]string, *string, error) {
	slices.Sort(items)
	if descending {
		slices.Reverse(items)
	}
	n := int(value(size))
	if size == nil {
		n = pageSize
	}
	if n < 1 || n > pageSize {
		return nil, nil, invalidParameter("maxResults must be between 1 and %d.", pageSize)
	}
	if value(token) != "" {
		last, err := base64.RawURLEncoding.DecodeString(*token)
		if err != nil {
			return nil, nil, invalidParameter("Invalid token.")
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

// pageOfFound is pageAfterToken for things that are listed by keys of their own.
func pageOfFound[T any](
	found map[string]T, token *string, size *int32, descending bool,
) (page []T, next *string, err error) {
	keys, next, err := pageAfterToken(slices.Collect(maps.Keys(found)), token, size, descending)
	for _, key := range keys {
		page = append(page, found[key])
	}
	return page, next, err
}

// timeOrNil returns nil for the zero time, because absent members of an answer are nil.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// invalidParameter returns an InvalidParameterException.
func invalidParameter(format string, args ...any) error {
	return cluster.Errorf(cluster.CodeInvalidParameter, format, args...)
}

// missingFailure is how Describe operations answer for what is not there: the call succeeds for the
// rest.
func missingFailure(arn string) types.Failure {
	return types.Failure{Arn: &arn, Reason: new("MISSING")}
}

// value returns what p points to, or the zero value: absent and empty members mean the same to most
// operations.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
