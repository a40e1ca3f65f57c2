package cloudwatch

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/aws/smithy-go/encoding/cbor"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// ServeJSON answers a call of CloudWatch in JSON 1.0, as some clients send it: the same as in CBOR.
func (c *Service) ServeJSON(w http.ResponseWriter, operation string, body []byte) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var in map[string]any
	out := cbor.Map{}
	err := d.Decode(&in)
	if err != nil {
		err = cluster.Errorf("SerializationException", "%v", err)
	} else {
		call, _ := fromJSON(in).(cbor.Map)
		out, err = c.metricOperation(operation, call)
	}
	status := http.StatusOK
	if err != nil {
		var e *cluster.Error
		e, status = protocol.AsError(err)
		out = cbor.Map{"__type": cbor.String(e.Code), "message": cbor.String(e.Message)}
	}
	answer, err := json.Marshal(toJSON(out))
	if err != nil {
		status = http.StatusInternalServerError
	}
	protocol.Reply(w, status, "application/x-amz-json-1.0", answer)
}

func fromJSON(v any) cbor.Value {
	switch x := v.(type) {
	case string:
		return cbor.String(x)
	case bool:
		return cbor.Bool(x)
	case json.Number:
		if n, err := x.Int64(); err == nil && n >= 0 && !strings.ContainsAny(x.String(), ".eE") {
			return cbor.Uint(n)
		}
		n, _ := x.Float64() // one that is too large is infinite
		return cbor.Float64(n)
	case []any:
		list := cbor.List{}
		for _, item := range x {
			list = append(list, fromJSON(item))
		}
		return list
	case map[string]any:
		m := cbor.Map{}
		for name, member := range x {
			m[name] = fromJSON(member)
		}
		return m
	}
	return nil
}

func toJSON(v cbor.Value) any {
	switch x := v.(type) {
	case *cbor.Tag:
		return toJSON(x.Value) // a time, in seconds
	case cbor.List:
		list := []any{}
		for _, item := range x {
			list = append(list, toJSON(item))
		}
		return list
	case cbor.Map:
		m := map[string]any{}
		for name, member := range x {
			m[name] = toJSON(member)
		}
		return m
	}
	return v // texts, numbers and truth values are JSON's
}
