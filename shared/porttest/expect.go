package porttest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/state"
)

// expectSameRow compares the stored members of rows; what says which row it is.
func expectSameRow(t rapid.TB, what string, want, got state.Row) {
	t.Helper()
	if diff := cmp.Diff(encodedText(want), encodedText(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// expectSameRows compares lists, which a store returns ordered by sort key.
func expectSameRows(t rapid.TB, want, got []state.Row) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		expectSameRow(t, state.KeyOf(want[i]).Sort, want[i], got[i])
	}
}

// encodedText returns the row's JSON. In it nil and empty collections are the same, and so are
// equal times in different zones.
func encodedText(row state.Row) string {
	if row == nil {
		return "none"
	}
	data, err := state.EncodeRow(asStored(row))
	if err != nil {
		return fmt.Sprintf("%v (%+v)", err, row)
	}
	return string(data)
}

// expectConflict expects a conflict over the row at key, with what the store holds there. Handlers
// decide by that row how to go on, without reading it again.
func expectConflict(t rapid.TB, err error, key state.Key, holds state.Row) {
	t.Helper()
	var conflict *state.Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("error %v, want a conflict over row %s", err, key.Sort)
	}
	if conflict.Key != key || conflict.Version {
		t.Errorf("conflict over %v (version: %v), want it over %v", conflict.Key, conflict.Version, key)
	}
	expectSameRow(t, "the conflict's row", holds, conflict.Row)
}

// expectInvalid expects an error that is not a conflict, because trying again cannot help.
func expectInvalid(t rapid.TB, err error) {
	t.Helper()
	var conflict *state.Conflict
	if err == nil || errors.As(err, &conflict) {
		t.Errorf("error %v, want one that is not a conflict", err)
	}
}

// rowInConflict returns the row that a conflict reports, nil for any other error.
func rowInConflict(err error) state.Row {
	var conflict *state.Conflict
	if errors.As(err, &conflict) {
		return conflict.Row
	}
	return nil
}

// expectVersion expects the cluster's placement version, and as many changes of its meta row: the
// version moves exactly once per commit.
func expectVersion(t rapid.TB, s state.Store, name string, version int64) {
	t.Helper()
	m, _ := mustGet(t, s, state.Key{Cluster: name, Sort: state.PrefixMeta}).(*state.Meta)
	if m == nil || m.Version != version || m.Rev != version+1 || !m.CreatedAt.Equal(t0) || m.Short != owner {
		t.Fatalf("meta row %+v, want version %d and the rest as it was", m, version)
	}
}

// expectVersionConflict expects a conflict over the placement version: another decision came first,
// and the snapshot must be read again.
func expectVersionConflict(t rapid.TB, err error, name string, holds state.Row) {
	t.Helper()
	var conflict *state.Conflict
	if !errors.As(err, &conflict) || !conflict.Version {
		t.Fatalf("error %v, want a conflict over the version", err)
	}
	if want := (state.Key{Cluster: name, Sort: state.PrefixMeta}); conflict.Key != want {
		t.Errorf("conflict over %v, want %v", conflict.Key, want)
	}
	if conflict.Row != nil { // a store may leave out the meta row here
		expectSameRow(t, "the conflict's row", holds, conflict.Row)
	}
}

func compareSortKeys(a, b state.Row) int {
	return strings.Compare(state.KeyOf(a).Sort, state.KeyOf(b).Sort)
}
