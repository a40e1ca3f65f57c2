package protocol

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
)

// QueryService is an API that takes forms and answers XML.
type QueryService struct {
	Namespace string
	// Plain answers have no element of their own for the result, and other errors (EC2).
	Plain   bool
	Actions map[string]Action
}

// Action answers one operation with what encoding/xml makes its result's members of; nil has none.
type Action func(ctx context.Context, form url.Values) (any, error)

// ServeQuery answers a call of the Query protocol to one of the services, by the version that every form has.
func ServeQuery(ctx context.Context, services map[string]QueryService, w http.ResponseWriter, body []byte) {
	form, err := url.ParseQuery(string(body))
	service := services[form.Get("Version")]
	action := form.Get("Action")
	var inner []byte
	if err == nil {
		inner, err = service.answer(ctx, form)
	}
	if err != nil {
		e, status := AsError(err)
		service.fail(w, status, e)
		return
	}
	const metadata = "<ResponseMetadata><RequestId>fleet</RequestId></ResponseMetadata>"
	answer := fmt.Appendf(nil, "<%[1]sResponse xmlns=%[2]q><%[1]sResult>%[3]s</%[1]sResult>%[4]s</%[1]sResponse>", action, service.Namespace, inner, metadata)
	if service.Plain {
		answer = fmt.Appendf(nil, "<%[1]sResponse xmlns=%[2]q><requestId>fleet</requestId>%[3]s</%[1]sResponse>", action, service.Namespace, inner)
	}
	Reply(w, http.StatusOK, "text/xml", answer)
}

func (s QueryService) answer(ctx context.Context, form url.Values) ([]byte, error) {
	act := s.Actions[form.Get("Action")]
	if act == nil {
		return nil, UnknownOperation(form.Get("Action"))
	}
	result, err := act(ctx, form)
	if err != nil || result == nil {
		return nil, err
	}
	var out strings.Builder
	if err := xml.NewEncoder(&out).EncodeElement(result, xml.StartElement{Name: xml.Name{Local: "r"}}); err != nil {
		return nil, fmt.Errorf("encoding the answer of %s: %w", form.Get("Action"), err)
	}
	return []byte(strings.TrimSuffix(strings.TrimPrefix(out.String(), "<r>"), "</r>")), nil
}

func (s QueryService) fail(w http.ResponseWriter, status int, e *cluster.Error) {
	var body any
	if s.Plain {
		type failure struct {
			XMLName   xml.Name `xml:"Response"`
			Code      string   `xml:"Errors>Error>Code"`
			Message   string   `xml:"Errors>Error>Message"`
			RequestID string
		}
		body = failure{Code: string(e.Code), Message: e.Message, RequestID: "fleet"}
	} else {
		type failure struct {
			XMLName   xml.Name `xml:"ErrorResponse"`
			Type      string   `xml:"Error>Type"`
			Code      string   `xml:"Error>Code"`
			Message   string   `xml:"Error>Message"`
			RequestID string   `xml:"RequestId"`
		}
		body = failure{Type: "Sender", Code: string(e.Code), Message: e.Message, RequestID: "fleet"}
	}
	text, err := xml.Marshal(body)
	if err != nil {
		status = http.StatusInternalServerError
	}
	Reply(w, status, "text/xml", text)
}

// Members are the values PREFIX.member.N.FIELD of a form, in order.
func Members(form url.Values, prefix, field string) (values []string) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.member.%d%s", prefix, n, field)
		if !form.Has(name) {
			return values
		}
		values = append(values, form.Get(name))
	}
}

// Only refuses a form with other parameters than those named, each with all that is below it: what the fleet would not heed
// it must not take.
func Only(form url.Values, names ...string) error {
	for key := range form {
		name, _, _ := strings.Cut(key, ".")
		if name != "Action" && name != "Version" && !slices.Contains(names, name) {
			return cluster.Errorf("ValidationError", "The simulated fleet does not know the parameter %.128s of %.128s", key, form.Get("Action"))
		}
	}
	return nil
}

// Required refuses a form that lacks a parameter.
func Required(form url.Values, names ...string) error {
	for _, name := range names {
		if form.Get(name) == "" {
			return cluster.Errorf("ValidationError", "1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", strings.ToLower(name[:1])+name[1:])
		}
	}
	return nil
}

// Whole reads a number into to, if the form has it.
func Whole(form url.Values, name string, to *int) error {
	if !form.Has(name) {
		return nil
	}
	n, err := strconv.ParseInt(form.Get(name), 10, 32)
	if err != nil {
		return cluster.Errorf("ValidationError", "%.32q is no number for %s", form.Get(name), name)
	}
	*to = int(n)
	return nil
}

// YesNo reads a truth value into to, if the form has it.
func YesNo(form url.Values, name string, to *bool) error {
	if !form.Has(name) {
		return nil
	}
	b, err := strconv.ParseBool(form.Get(name))
	if err != nil {
		return cluster.Errorf("ValidationError", "%.32q is neither true nor false for %s", form.Get(name), name)
	}
	*to = b
	return nil
}

// PageOf cuts the next page out of a list of at most most items, by the number of the first as token.
func PageOf[T any](items []T, token string, size, most int) (page []T, next string, err error) {
	if size < 1 || size > most {
		return nil, "", cluster.Errorf("ValidationError", "The number of records is %d, and must be between 1 and %d", size, most)
	}
	from := 0
	if token != "" {
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(items) {
			return nil, "", cluster.Errorf("InvalidNextToken", "The token %.64q is not valid", token)
		}
	}
	items = items[from:]
	if len(items) > size {
		return items[:size], strconv.Itoa(from + size), nil
	}
	return items, "", nil
}

// XMLTime is a time as these APIs write it; empty for one that has not come.
func XMLTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
