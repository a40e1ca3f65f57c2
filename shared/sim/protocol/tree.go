package protocol

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"

	"berth/shared/cluster"
)

// Encoding is a protocol whose operations take and give trees: how bodies are read and written, and
// what differs in errors.
type Encoding struct {
	decode      func(body []byte) (any, error)
	encode      func(answer Tree) ([]byte, error)
	contentType string
	message     string // the name of an error's text; Cloud Map alone writes it in upper case
}

// CBOR is Smithy's RPC v2, JSON and JSON11 are AWS's JSON 1.0 and 1.1.
var (
	CBOR   = Encoding{decodeCBOR, encodeCBOR, "application/cbor", "message"}
	JSON   = Encoding{decodeJSON, encodeJSON, "application/x-amz-json-1.0", "message"}
	JSON11 = Encoding{decodeJSON, encodeJSON, "application/x-amz-json-1.1", "Message"}
)

// ServeTree answers a call with what do makes of its input. An error is answered with its code as
// __type. A body that cannot be read is a SerializationException and never reaches do.
func (e Encoding) ServeTree(w http.ResponseWriter, body []byte, do func(in Tree) (Tree, error)) {
	in, err := e.decode(body)
	var out Tree
	if err != nil {
		err = cluster.Errorf("SerializationException", "%v", err)
	} else {
		tree, _ := in.(Tree)
		out, err = do(tree)
	}
	status := http.StatusOK
	if err != nil {
		var failure *cluster.Error
		failure, status = AsAPIError(err)
		out = Tree{"__type": string(failure.Code), e.message: failure.Message}
	}
	answer, err := e.encode(out)
	if err != nil {
		status = http.StatusInternalServerError
	}
	if e.contentType == "application/cbor" {
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	}
	WriteReply(w, status, e.contentType, answer)
}

// decodeCBOR takes an empty body for a structure without members: Smithy's RPC leaves it out for an
// operation without input.
func decodeCBOR(body []byte) (any, error) {
	if len(body) == 0 {
		return Tree{}, nil
	}
	v, err := cbor.Decode(body)
	return treeFromCBOR(v), err
}

// treeFromCBOR drops tags and keeps their values: the one tag in use, 1, marks a number as a time.
func treeFromCBOR(v cbor.Value) any {
	switch x := v.(type) {
	case cbor.String:
		return string(x)
	case cbor.Bool:
		return bool(x)
	case cbor.Float64:
		return float64(x)
	case cbor.Float32:
		return float64(x)
	case cbor.Uint:
		return float64(x)
	case cbor.NegInt:
		return -float64(x)
	case *cbor.Tag:
		return treeFromCBOR(x.Value)
	case cbor.List:
		list := make([]any, 0, len(x))
		for _, item := range x {
			list = append(list, treeFromCBOR(item))
		}
		return list
	case cbor.Map:
		t := Tree{}
		for name, member := range x {
			t[name] = treeFromCBOR(member)
		}
		return t
	}
	return nil
}

func encodeCBOR(answer Tree) ([]byte, error) { return cbor.Encode(cborFromTree(answer)), nil }

// cborFromTree knows the kinds of values that operations answer with.
func cborFromTree(v any) cbor.Value {
	switch x := v.(type) {
	case string:
		return cbor.String(x)
	case int:
		return cbor.Uint(x)
	case float64:
		return cbor.Float64(x)
	case time.Time:
		return &cbor.Tag{ID: 1, Value: cbor.Float64(epochSeconds(x))}
	case []Tree:
		list := cbor.List{}
		for _, item := range x {
			list = append(list, cborFromTree(item))
		}
		return list
	case Tree:
		m := cbor.Map{}
		for name, member := range x {
			m[name] = cborFromTree(member)
		}
		return m
	}
	return nil
}

// epochSeconds is how both encodings write a time.
func epochSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// decodeJSON reads numbers itself, because one that is too large for a float64 is infinite here,
// and no error.
func decodeJSON(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var in map[string]any
	err := d.Decode(&in)
	return treeFromJSON(in), err
}

func treeFromJSON(v any) any {
	switch x := v.(type) {
	case json.Number:
		f, _ := x.Float64()
		return f
	case []any:
		for n, item := range x {
			x[n] = treeFromJSON(item)
		}
	case Tree:
		for name, member := range x {
			x[name] = treeFromJSON(member)
		}
	}
	return v
}

func encodeJSON(answer Tree) ([]byte, error) { return json.Marshal(jsonFromTree(answer)) }

// jsonFromTree replaces the times in a tree, in place, by numbers; all else encodes as it is.
func jsonFromTree(v any) any {
	switch x := v.(type) {
	case time.Time:
		return epochSeconds(x)
	case []Tree:
		for _, item := range x {
			jsonFromTree(item)
		}
	case Tree:
		for name, member := range x {
			x[name] = jsonFromTree(member)
		}
	}
	return v
}
