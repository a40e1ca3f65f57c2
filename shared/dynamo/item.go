package dynamo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/state"
)

// item is a row as DynamoDB stores it: the fields of the row's JSON as attributes, and the two
// keys. Example, a task that runs, in one of the partition keys of tasks ([state.Key.PartitionKey]):
//
//	{
//	  "pk": {"S": "prod#4"}, "sk": {"S": "task#3f9ab2c61d07#5c8e..."},
//	  "rv": {"N": "4"}, "de": {"S": "RUNNING"}, "la": {"S": "RUNNING"}, "ve": {"N": "2"}
//	}
type item = map[string]types.AttributeValue

// The attributes of the table's key.
const (
	partitionKey = "pk"
	sortKey      = "sk"
)

func keyAttributes(k state.Key) item {
	return item{partitionKey: stringAttribute(k.PartitionKey()), sortKey: stringAttribute(k.Sort)}
}

func stringAttribute(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// encodeRow encodes a row as JSON first, so that omitempty, omitzero and embedding mean here what
// they mean in every other store.
func encodeRow(row state.Row) (item, error) {
	key := state.KeyOf(row)
	data, err := state.EncodeRow(row)
	if err != nil {
		return nil, fmt.Errorf("encoding row %s: %w", key.Sort, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // 64-bit counters would not survive a float
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("encoding row %s: %w", key.Sort, err)
	}
	out := keyAttributes(key)
	for name, v := range fields {
		if name != partitionKey {
			out[name] = encodeAttribute(v)
		}
	}
	return out, nil
}

// encodeAttribute returns a decoded JSON value as an attribute value. Example: [1, true] becomes a
// list (L) of a number (N) and a truth value (BOOL).
func encodeAttribute(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return stringAttribute(v)
	case json.Number:
		return &types.AttributeValueMemberN{Value: v.String()}
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case []any:
		list := make([]types.AttributeValue, len(v))
		for i, e := range v {
			list[i] = encodeAttribute(e)
		}
		return &types.AttributeValueMemberL{Value: list}
	case map[string]any:
		fields := make(item, len(v))
		for name, e := range v {
			fields[name] = encodeAttribute(e)
		}
		return &types.AttributeValueMemberM{Value: fields}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

// decodeRow reads what encodeRow wrote. It returns nil for a row of a kind that this version does
// not know.
func decodeRow(it item) (state.Row, error) {
	sk, ok := it[sortKey].(*types.AttributeValueMemberS)
	if !ok {
		return nil, fmt.Errorf("decoding row: it has no sort key")
	}
	if state.EmptyRow(sk.Value) == nil {
		return nil, nil
	}
	data, err := appendJSONObject(make([]byte, 0, 1024), it)
	if err != nil {
		return nil, fmt.Errorf("decoding row %s: %w", sk.Value, err)
	}
	row, err := state.DecodeRow(sk.Value, data)
	if err != nil {
		return nil, err
	}
	convertTimesToUTC(reflect.ValueOf(row).Elem())
	head := row.Header()
	head.Cluster = state.ClusterOfPartition(head.Cluster) // it was decoded from the partition key
	return row, nil
}

// convertTimesToUTC converts a row's times to UTC, which every other store returns, from the
// zone that they were written in.
func convertTimesToUTC(v reflect.Value) {
	switch at, isTime := v.Addr().Interface().(*time.Time); {
	case isTime:
		*at = at.UTC()
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.Struct, reflect.Slice, reflect.Pointer, reflect.Map:
				convertTimesToUTC(f)
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct:
		convertTimesToUTC(v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			convertTimesToUTC(v.Index(i))
		}
	case v.Kind() == reflect.Map && v.Type().Elem() == reflect.TypeFor[time.Time]():
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf(v.MapIndex(key).Interface().(time.Time).UTC()))
		}
	}
}

// appendJSONObject writes attributes as JSON, which the row's kind decodes. Numbers stay the text
// that they are in DynamoDB.
func appendJSONObject(b []byte, fields item) ([]byte, error) {
	b = append(b, '{')
	first := true
	for name, v := range fields {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendJSONText(b, name), ':')
		var err error
		if b, err = appendJSONValue(b, v); err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	return append(b, '}'), nil
}

// appendJSONValue knows the types that encodeRow writes. Sets and binary values are errors: no row
// but Berth writes to the table.
func appendJSONValue(b []byte, v types.AttributeValue) ([]byte, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return appendJSONText(b, v.Value), nil
	case *types.AttributeValueMemberN:
		return append(b, v.Value...), nil
	case *types.AttributeValueMemberBOOL:
		return fmt.Append(b, v.Value), nil
	case *types.AttributeValueMemberNULL:
		return append(b, "null"...), nil
	case *types.AttributeValueMemberL:
		b = append(b, '[')
		for i, e := range v.Value {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendJSONValue(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case *types.AttributeValueMemberM:
		return appendJSONObject(b, v.Value)
	}
	return nil, fmt.Errorf("no row has values of type %T", v)
}

// appendJSONText quotes as JSON does. Nearly every text is plain ASCII and needs no encoder, which
// matters when a large cluster is loaded.
func appendJSONText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always encodes
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	return append(append(b, s...), '"')
}

// decodeOrNil returns nil, and not an interface that holds nil, for no item.
func decodeOrNil(it item) (state.Row, error) {
	if it == nil {
		return nil, nil
	}
	return decodeRow(it)
}
