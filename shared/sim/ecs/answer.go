package ecs

import (
	"cmp"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// pageSize is the most that a List operation returns, and what it returns if the caller gives no
// size.
const pageSize = 100

// pageAfterToken returns a page of the items in order, and the token of the next page, nil after the
// last. The token is the page's last item, so that items which are added or removed between two
// calls make no other item appear twice or not at all. It is good for one list only, which has the
// name of its operation. Only the items of the page are sorted: lists are long, and have many pages.
func pageAfterToken(
	list string, items []string, token *string, size *int32, descending bool,
) ([]string, *string, error) {
	n := int(value(size))
	if size == nil {
		n = pageSize
	}
	if n < 1 || n > pageSize {
		return nil, nil, invalidParameter("maxResults must be between 1 and %d.", pageSize)
	}
	raw, err := base64.RawURLEncoding.DecodeString(value(token))
	last, fits := strings.CutPrefix(string(raw), list+"/")
	if value(token) != "" && (err != nil || !fits) {
		return nil, nil, invalidParameter("Invalid token: %.100q", *token)
	}
	compare := cmp.Compare[string]
	if descending {
		compare = func(a, b string) int { return cmp.Compare(b, a) }
	}
	var page []string // sorted: the first n after the last item of the page before, and one more
	for _, item := range items {
		if last != "" && compare(item, last) <= 0 || len(page) > n && compare(item, page[n]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(page, item, compare)
		page = slices.Insert(page[:min(len(page), n)], at, item)
	}
	if len(page) <= n {
		return page, nil, nil
	}
	return page[:n], new(base64.RawURLEncoding.EncodeToString([]byte(list + "/" + page[n-1]))), nil
}

// pageOfFound is pageAfterToken for things that are listed by keys of their own.
func pageOfFound[T any](
	list string, found map[string]T, token *string, size *int32, descending bool,
) (page []T, next *string, err error) {
	keys, next, err := pageAfterToken(list, slices.Collect(maps.Keys(found)), token, size, descending)
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
