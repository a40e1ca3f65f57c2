package answer_test

import (
	"slices"
	"strings"
	"testing"

	"berth/shared/wire/answer"
)

// What ECS has come to list itself, between two looks at it, is listed once.
func TestListHasEachItemOnce(t *testing.T) {
	list := answer.List{Compare: strings.Compare, Added: []string{"b", "c"}}
	shown, used, isCut := list.Page([]string{"a", "c", "d"}, "", 3, false)
	if !slices.Equal(shown, []string{"a", "b", "c"}) || used != 2 || !isCut {
		t.Errorf("%v after %d items of ECS, cut %v", shown, used, isCut)
	}
}
