package porttest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

// words are texts that an encoding could get wrong: what looks like JSON, numbers or expressions,
// and characters that need escapes.
var words = []string{
	"", "x", "web:1", "0", "-1", "true", "null", " a b ", "Näme \"q\"\\\n\t", "<välue>&\u2028", "日本語", "\x7f~", "#",
	"a#b/c", "$x :y",
}

// keyWords are texts that may be part of a key. No key is empty.
var keyWords = []string{"x", "Web_1-a", "a b", "a#b", "a/b", "ü日本", "\"q\"\\", "%41", "~", "0", "a\nb"}

// emptyRowsByKind returns an empty row of each kind there is, by the name of its prefix.
func emptyRowsByKind() map[string]state.Row {
	out := map[string]state.Row{}
	for _, prefix := range []string{
		state.PrefixMeta, state.PrefixInstance, state.PrefixService, state.PrefixTask, state.PrefixAlias,
		state.PrefixDefinition, state.PrefixOutbox, state.PrefixRequest, state.PrefixDue, state.PrefixEvent,
		state.PrefixCheckpoint, state.PrefixEntry, state.PrefixBucket,
	} {
		out[strings.TrimSuffix(prefix, "#")] = state.EmptyRow(prefix)
	}
	return out
}

// drawRow returns a row of the same kind with all fields drawn, as it comes back from a store. No
// other row of the cluster has its key, because n is part of it.
func drawRow(t *rapid.T, kind state.Row, name string, n int) state.Row {
	row := reflect.New(reflect.TypeOf(kind).Elem())
	fillFields(t, row.Elem(), row.Elem().Type().Name())
	r := row.Interface().(state.Row)
	h := r.Header()
	h.Cluster, h.Rev = name, 1
	if h.Expires != 0 {
		h.Expires = 7_000_000_000 // the year 2191: a table deletes what has expired
	}
	word := fmt.Sprintf("%s%d", rapid.SampledFrom(keyWords).Draw(t, "key"), n)
	switch r := r.(type) {
	// The directory is a partition that all clusters share: the name has to be unique, too.
	case *state.Entry:
		h.Cluster, r.Name = state.Directory, name+word
	case *state.Bucket:
		h.Cluster, r.Name = state.Directory, name+word
	case *cluster.ServiceEvent:
		r.Service, r.Slot = word, rapid.IntRange(0, cluster.EventRing-1).Draw(t, "slot")
	case *state.Due:
		r.Kind, r.Subject = state.DueService, word
	case *cluster.Service:
		r.Name = word
	case *cluster.TaskDefinition:
		r.Family = word
	case *state.Alias:
		r.Derived = word
	case *cluster.Instance:
		r.ID = word
	case *cluster.Task:
		r.Owner, r.ID = owner, word
	case *state.Outbox:
		r.ID = word
	case *state.Request:
		r.ID = word
	}
	return asStored(r)
}

// fillFields draws every exported field, however deep. It knows all kinds of fields, so that a
// field which a row gets later is tested without a change here.
func fillFields(t *rapid.T, v reflect.Value, label string) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		if !rapid.Bool().Draw(t, label+" zero") {
			*p = t0.Add(time.Duration(rapid.Int64Range(-1e17, 1e17).Draw(t, label)))
		}
		return
	case *cluster.Health:
		*p = drawHealth(t)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.SampledFrom(words).Draw(t, label))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, label))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, label)))
	case reflect.Float64:
		// A fraction of 1024 has few digits in decimal, too: no encoding rounds it.
		v.SetFloat(float64(rapid.IntRange(-1e9, 1e9).Draw(t, label)) / 1024)
	case reflect.Struct:
		for i := range v.NumField() {
			fillFields(t, v.Field(i), label+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, label+" set") {
			v.Set(reflect.New(v.Type().Elem()))
			fillFields(t, v.Elem(), label)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, label+" length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fillFields(t, v.Index(i), fmt.Sprint(label, i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range rapid.IntRange(0, 3).Draw(t, label+" length") {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fillFields(t, key, fmt.Sprint(label, i, " key"))
			fillFields(t, value, fmt.Sprint(label, i))
			if key.String() != "" {
				v.SetMapIndex(key, value)
			}
		}
	default:
		t.Fatalf("%s: no way to fill a %s", label, v.Type())
	}
}

// convertToUTC changes all times of a row from their zone to UTC, in place.
func convertToUTC(row state.Row) { convertValueToUTC(reflect.ValueOf(row).Elem()) }

func convertValueToUTC(v reflect.Value) {
	if v.CanAddr() {
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = at.UTC()
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			convertValueToUTC(v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			convertValueToUTC(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			convertValueToUTC(v.Index(i))
		}
	default: // no row has times in a map
	}
}

// drawTime returns the zero time or one within some minutes of t0.
func drawTime(t *rapid.T, label string) time.Time {
	if rapid.Bool().Draw(t, label+" zero") {
		return time.Time{}
	}
	return t0.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, label)))
}

func drawStatus(t *rapid.T, label string) cluster.TaskStatus {
	return rapid.SampledFrom([]cluster.TaskStatus{"", cluster.TaskPending, cluster.TaskRunning,
		cluster.TaskStopped}).Draw(t, label)
}

func drawHealth(t *rapid.T) cluster.Health {
	return rapid.SampledFrom([]cluster.Health{cluster.UnknownHealth, cluster.Healthy, cluster.Unhealthy}).Draw(t,
		"health")
}

// asStored returns the row as it comes back from a store: its times in UTC, its empty collections
// nil. It shares no memory with the row.
func asStored(row state.Row) state.Row {
	sort := state.KeyOf(row).Sort
	data, err := state.EncodeRow(row)
	if err != nil {
		return row
	}
	back, err := state.DecodeRow(sort, data)
	if err != nil {
		return row
	}
	convertToUTC(back)
	return back
}
