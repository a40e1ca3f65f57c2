package stored

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/dynamo"
	"berth/shared/embedded"
	"berth/shared/state"
)

var write = flag.String("write", "", "folder below testdata to write with the code as it is; it must not exist")

// A manifest says how the files of a version were written.
type manifest struct {
	// At is when the installation was stopped.
	At time.Time
	// Rows is the number of rows in all files.
	Rows int
}

func TestWrite(t *testing.T) {
	if *write == "" {
		t.Skip("run with -write FOLDER to store what this version writes")
	}
	folder := filepath.Join("testdata", *write)
	if _, err := os.Stat(folder); err == nil {
		t.Fatalf("%s is there already: what a version has written is kept as it is", folder)
	}
	w := buildWorld(t, t.TempDir())
	rows := w.rowsOf(state.Directory, shop, yard)
	extra, err := everyField("every-field")
	if err != nil {
		t.Fatal(err)
	}
	if missing := unsetFields(extra); len(missing) > 0 {
		t.Fatalf("no row has a value in %q", missing)
	}
	fields := filepath.Join(t.TempDir(), "state.db")
	writeFields(t, fields, extra)
	rows = append(rows, extra...)
	at := w.Loop.Now()
	for name, from := range map[string]string{
		"berth/state.db.gz":       filepath.Join(w.folder, "state.db"),
		"berth/fleet.db.gz":       filepath.Join(w.folder, "fleet.db"),
		"every-field/state.db.gz": fields,
	} {
		w.checkError(os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755))
		writeFile(t, filepath.Join(folder, name), gzipped(mustSucceed(os.ReadFile(from))(w)))
	}
	writeFile(t, filepath.Join(folder, "table.jsonl"), exportRows(t, rows))
	again := openWorld(t, unpackedCopy(t, filepath.Join(folder, "berth")), at)
	writeFile(t, filepath.Join(folder, "answers.json"),
		mustSucceed(json.MarshalIndent(again.recordAnswers(), "", " "))(w))
	m := manifest{At: at, Rows: len(rows)}
	writeFile(t, filepath.Join(folder, "manifest.json"), mustSucceed(json.Marshal(m))(w))
}

// gzipped compresses data, because the free pages of a state file compress to nothing.
func gzipped(data []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is known
	_, _ = z.Write(data)                                    // a buffer accepts everything
	_ = z.Close()
	return out.Bytes()
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeFields stores rows of every kind, and the first of each kind again, so that the stream has a
// record of it.
func writeFields(t *testing.T, path string, rows []state.Row) {
	t.Helper()
	put := func(rows []state.Row, consumers ...string) {
		store, err := embedded.OpenStore(embedded.StoreOptions{Path: path, Consumers: consumers})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if _, err := store.Write(t.Context(), state.Write{Put: r, Any: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put(rows)
	var first []state.Row
	seen := map[string]bool{}
	for _, r := range rows {
		if kind := kindOf(state.KeyOf(r).Sort); !seen[kind] {
			first, seen[kind] = append(first, r), true
		}
	}
	put(first, "placement", "dispatch")
}

// exportRows returns the rows as DynamoDB exports them, sorted by key.
func exportRows(t *testing.T, rows []state.Row) []byte {
	t.Helper()
	b := &table{items: map[state.Key]map[string]types.AttributeValue{}}
	store := &dynamo.State{Client: b, Table: "berth"}
	for _, r := range rows {
		if _, err := store.Write(t.Context(), state.Write{Put: r}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	byKey := func(a, b state.Key) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Sort, b.Sort))
	}
	for _, key := range slices.SortedFunc(maps.Keys(b.items), byKey) {
		if err := lines.Encode(map[string]any{"Item": itemJSON(b.items[key])}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}
