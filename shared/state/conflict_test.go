package state_test

import (
	"testing"

	"berth/shared/state"
)

func TestConflictNamesTheRow(t *testing.T) {
	key := state.TaskKey("c", "o", "t")
	expect(t, "conflict", (&state.Conflict{Key: key}).Error(), "row task#o#t of cluster c has changed")
	expect(t, "version", (&state.Conflict{Key: key, Version: true}).Error(),
		"cluster c: the placement version has moved on")
}
