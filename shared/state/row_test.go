package state_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

// rows has one row of each kind, with its key.
var rows = map[string]state.Row{
	"c meta":       &state.Meta{Head: head, Version: 3, CreatedAt: noon, Short: "s"},
	"c instance#i": instance("i", "a", 1),
	"c service#web": &cluster.Service{
		Head:            head,
		ServiceIdentity: cluster.ServiceIdentity{Name: "web"},
		ServiceStatus:   cluster.ServiceStatus{Blocked: &cluster.Diagnosis{Evaluated: 1}},
	},
	"c task#web#t":  running("t", "i", 1),
	"c alias#d":     &state.Alias{Head: head, Derived: "d", Owner: "o", ID: "t"},
	"c taskdef#f:2": &cluster.TaskDefinition{Head: head, Family: "f", Revision: 2, Attributes: []string{"a=b"}},
	"c outbox#7": &state.Outbox{Head: head, ID: "7", Starts: []state.StartItem{{ID: "t", Instance: "i"}},
		Stops: []state.StopItem{{Owner: "o"}}},
	"c request#r": &state.Request{Head: head, ID: "r", Instances: []string{"i"},
		RequestAnswer: state.RequestAnswer{Failures: []cluster.Failure{{Reason: "AGENT"}}}},
	"c event#s#07": &cluster.ServiceEvent{Head: head, Service: "s", Slot: 7, Number: 107, Message: "m"},
	"c checkpoint": &state.Checkpoint{Head: head, Environment: "e", Batch: 4},
	"c nodegroup#g": &cluster.NodeGroup{Head: head, Name: "g", Status: cluster.NodeGroupActive, CreatedAt: noon,
		ModifiedAt: noon},
	"c update#g#u": &cluster.Update{Head: head, NodeGroup: "g", ID: "u", CreatedAt: noon,
		UpdateBaseline:  cluster.UpdateBaseline{OriginalSizes: &cluster.Sizes{Max: 3}},
		NodeReplacement: cluster.NodeReplacement{Removals: []cluster.NodeRemoval{{Instance: "i"}}}},
	"# cluster#c": &state.Entry{Head: cluster.Head{Cluster: state.Directory, Rev: 1}, Name: "c"},
	"# bucket#b": &state.Bucket{Head: cluster.Head{Cluster: state.Directory, Rev: 1}, Name: "b", Tokens: 1.5,
		At: noon},
	"c due#2026-11-21T12:00:00.000000Z#service#web": &state.Due{Head: head, At: noon, Kind: state.DueService,
		Subject: "web", Generation: 2},
}

var head = cluster.Head{Cluster: "c", Rev: 1, Stamp: 5, Expires: 9}

func TestRowsSurviveEncoding(t *testing.T) {
	for key, row := range rows {
		t.Run(key, func(t *testing.T) {
			expect(t, "key", state.KeyOf(row).Cluster+" "+state.KeyOf(row).Sort, key)
			data, err := state.EncodeRow(row)
			if err != nil {
				t.Fatal(err)
			}
			got, err := state.DecodeRow(state.KeyOf(row).Sort, data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row, got); diff != "" {
				t.Error(diff)
			}
			expect(t, "header", got.Header().Rev, 1)
		})
	}
}

func TestDecodeRowRefuses(t *testing.T) {
	for name, c := range map[string]struct{ sort, data, want string }{
		"UnknownKind": {"nothing#x", "{}", `decoding row "nothing#x": no such kind`},
		"NoJSON":      {"task#o#t", "{", `decoding row "task#o#t": unexpected end of JSON input`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := state.DecodeRow(c.sort, []byte(c.data))
			expect(t, "error", fmt.Sprint(err), c.want)
		})
	}
}

// A field with the tag of one in the head would shadow it: stamps and expiry would be lost in the
// store.
func TestNoRowShadowsItsHead(t *testing.T) {
	tag := func(f reflect.StructField) string { return strings.Split(f.Tag.Get("json"), ",")[0] }
	var shared []string
	for f := range reflect.TypeFor[cluster.Head]().Fields() {
		shared = append(shared, tag(f))
	}
	for key, row := range rows {
		seen := map[string]bool{}
		for f := range reflect.TypeOf(row).Elem().Fields() {
			if f.Anonymous {
				continue
			}
			name := tag(f)
			if name == "" || name == "sk" || seen[name] || slices.Contains(shared, name) {
				t.Errorf("%s: field %s has the tag %q", key, f.Name, name)
			}
			seen[name] = true
		}
	}
}

func TestDueRowsSortByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.Custom(func(t *rapid.T) time.Time {
			return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999_999).Draw(t, "µs")*1000).
				In(time.FixedZone("", rapid.IntRange(-12, 12).Draw(t, "zone")*3600))
		})
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		if a.Before(b) != (state.DueSort(a) < state.DueSort(b)) {
			t.Fatalf("%v and %v sort as %s and %s", a, b, state.DueSort(a), state.DueSort(b))
		}
		due := &state.Due{Head: head, At: a, Kind: state.DueWaiting, Subject: "x"}
		r := state.DueBy("c", b)
		if in := r.From <= state.KeyOf(due).Sort && state.KeyOf(due).Sort < r.To; in != !a.After(b) {
			t.Fatalf("due at %v is in the range by %v: %v", a, b, in)
		}
	})
}

func TestPrefixIsTheRangeOfAKind(t *testing.T) {
	r := state.Prefix("c", state.PrefixTask)
	for key, row := range rows {
		_, task := row.(*cluster.Task)
		sort := state.KeyOf(row).Sort
		if in := r.From <= sort && sort < r.To; in != task {
			t.Errorf("%s is in the range of tasks: %v", key, in)
		}
	}
}
