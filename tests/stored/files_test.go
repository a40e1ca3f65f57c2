package stored

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	bolt "go.etcd.io/bbolt"

	"berth/shared/dynamo"
	"berth/shared/state"
)

// A stateFile is the content of a state.db, read without any of the code under test.
type stateFile struct {
	rows    map[state.Key][]byte
	records []storedRecord
}

// A storedRecord is a record of the stream that not every consumer has acknowledged.
type storedRecord struct {
	key       state.Key
	old, next []byte // empty if there was or is no row
}

func readStateFile(t *testing.T, path string) stateFile {
	t.Helper()
	out := stateFile{rows: map[state.Key][]byte{}}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		err := tx.Bucket([]byte("rows")).ForEach(func(k, v []byte) error {
			name, sort, ok := strings.Cut(string(k), "\x00")
			if !ok {
				return fmt.Errorf("row %q has no cluster", k)
			}
			out.rows[state.Key{Cluster: name, Sort: sort}] = bytes.Clone(v)
			return nil
		})
		if err != nil {
			return err
		}
		return tx.Bucket([]byte("stream")).ForEach(func(_, v []byte) error {
			var fields [4][]byte
			for i := range fields {
				n, used := binary.Uvarint(v)
				if used <= 0 || n > uint64(len(v)-used) {
					return errors.New("a record is cut short")
				}
				fields[i], v = bytes.Clone(v[used:used+int(n)]), v[used+int(n):]
			}
			key := state.Key{Cluster: string(fields[0]), Sort: string(fields[1])}
			out.records = append(out.records, storedRecord{key, fields[2], fields[3]})
			return nil
		})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

// unpackedCopy unpacks the files of a folder into a temporary one, because opening them writes to
// them.
func unpackedCopy(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	files, err := filepath.Glob(filepath.Join(from, "*.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no files: %v", from, err)
	}
	for _, name := range files {
		if err := unpackFile(name, filepath.Join(to, strings.TrimSuffix(filepath.Base(name), ".gz"))); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func unpackFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.WriteFile(to, data, 0o600)
}

// A table is a DynamoDB table that accepts every put and answers every query.
type table struct {
	dynamo.API
	items map[state.Key]map[string]types.AttributeValue
}

func (b *table) PutItem(
	_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options),
) (*dynamodb.PutItemOutput, error) {
	b.items[keyOf(in.Item)] = in.Item
	return &dynamodb.PutItemOutput{}, nil
}

// GetItem finds nothing: the tests write each row once.
func (b *table) GetItem(
	context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options),
) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{}, nil
}

// Query answers with the range of a partition.
func (b *table) Query(
	_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options),
) (*dynamodb.QueryOutput, error) {
	text := func(name string) string {
		v, _ := in.ExpressionAttributeValues[name].(*types.AttributeValueMemberS)
		if v == nil {
			return ""
		}
		return v.Value
	}
	partition, to, from := text(":0"), text(":1"), text(":2")
	out := &dynamodb.QueryOutput{}
	for key, it := range b.items {
		pk, _ := it["pk"].(*types.AttributeValueMemberS)
		if pk != nil && pk.Value == partition && from <= key.Sort && key.Sort < to && key.Sort != "layout" {
			out.Items = append(out.Items, it)
		}
	}
	slices.SortFunc(out.Items, func(a, b map[string]types.AttributeValue) int {
		return cmp.Compare(keyOf(a).Sort, keyOf(b).Sort)
	})
	return out, nil
}

func keyOf(it map[string]types.AttributeValue) state.Key {
	pk, _ := it["pk"].(*types.AttributeValueMemberS)
	sk, _ := it["sk"].(*types.AttributeValueMemberS)
	if pk == nil || sk == nil {
		return state.Key{}
	}
	return state.Key{Cluster: state.ClusterOfPartition(pk.Value), Sort: sk.Value}
}

// listRows returns all rows of the table, as the code under test decodes them.
func (b *table) listRows(ctx context.Context) (rows []state.Row, err error) {
	store := &dynamo.State{Client: b, Table: "berth"}
	for _, name := range b.partitionKeys() {
		got, err := store.List(ctx, state.Prefix(name, ""))
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

func (b *table) partitionKeys() (names []string) {
	for key := range b.items {
		names = append(names, key.Cluster)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readTable reads an export: one {"Item":{...}} per line.
func readTable(t *testing.T, path string) (*table, []json.RawMessage) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := &table{items: map[state.Key]map[string]types.AttributeValue{}}
	var lines []json.RawMessage
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var line struct{ Item json.RawMessage }
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		v, err := fromJSON(append(append([]byte(`{"M":`), line.Item...), '}'))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		it := v.(*types.AttributeValueMemberM).Value
		b.items[keyOf(it)] = it
		lines = append(lines, line.Item)
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return b, lines
}

// fromJSON reads an attribute value as DynamoDB's exports and streams write it, such as
// {"S":"text"}.
func fromJSON(data []byte) (types.AttributeValue, error) {
	var v struct {
		S, N *string
		BOOL *bool
		NULL *bool
		L    *[]json.RawMessage
		M    *map[string]json.RawMessage
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	switch {
	case v.S != nil:
		return &types.AttributeValueMemberS{Value: *v.S}, nil
	case v.N != nil:
		return &types.AttributeValueMemberN{Value: *v.N}, nil
	case v.BOOL != nil:
		return &types.AttributeValueMemberBOOL{Value: *v.BOOL}, nil
	case v.NULL != nil:
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case v.L != nil:
		list := &types.AttributeValueMemberL{}
		for _, e := range *v.L {
			item, err := fromJSON(e)
			if err != nil {
				return nil, err
			}
			list.Value = append(list.Value, item)
		}
		return list, nil
	case v.M != nil:
		m := &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}}
		for name, e := range *v.M {
			var err error
			if m.Value[name], err = fromJSON(e); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return nil, fmt.Errorf("no attribute value: %s", data)
}

// toJSON writes an attribute value as DynamoDB's exports and streams do.
func toJSON(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, e := range v.Value {
			list[i] = toJSON(e)
		}
		return map[string]any{"L": list}
	case *types.AttributeValueMemberM:
		return map[string]any{"M": itemJSON(v.Value)}
	}
	return map[string]any{"NULL": true}
}

func itemJSON(it map[string]types.AttributeValue) map[string]any {
	m := make(map[string]any, len(it))
	for name, e := range it {
		m[name] = toJSON(e)
	}
	return m
}

// findDifferences compares what was stored with what the decoded row is encoded to. Every stored
// value must be there. Other values must be zero, so that a later version may have more fields.
func findDifferences(path string, stored, got any) (out []string) {
	switch s := stored.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: stored %v, now %v", path, stored, got)}
		}
		for name, v := range s {
			if _, ok := g[name]; !ok {
				out = append(out, fmt.Sprintf("%s.%s: stored %v, now absent", path, name, v))
				continue
			}
			out = append(out, findDifferences(path+"."+name, v, g[name])...)
		}
		for name, v := range g {
			if _, ok := s[name]; !ok && !isZeroJSON(v) {
				out = append(out, fmt.Sprintf("%s.%s: not stored, now %v", path, name, v))
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(s) {
			return []string{fmt.Sprintf("%s: stored %v, now %v", path, stored, got)}
		}
		for i := range s {
			out = append(out, findDifferences(fmt.Sprintf("%s[%d]", path, i), s[i], g[i])...)
		}
	default:
		if stored != got {
			out = append(out, fmt.Sprintf("%s: stored %v, now %v", path, stored, got))
		}
	}
	return out
}

func isZeroJSON(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if !isZeroJSON(e) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return v == nil || v == "" || v == false || v == json.Number("0") || v == "0001-01-01T00:00:00Z"
}

// parseJSON parses JSON and keeps numbers as they are written.
func parseJSON(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}
