package protocol

import (
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
)

// QueryService is an API that takes forms and answers XML.
type QueryService struct {
	// Namespace is the XML namespace of answers. It is also how a reader tells the services apart.
	Namespace string
	// Plain is true for EC2, whose answers have no element around the result and whose errors look
	// different.
	Plain bool
	// Actions are the operations by the form's Action. Any other is refused as an InvalidAction.
	Actions map[string]Action
}

// Action answers one operation. encoding/xml writes the members of its result, which is a struct or
// a pointer to one; a nil result has none.
type Action func(ctx context.Context, form url.Values) (any, error)

// ServeQuery answers a call of the Query protocol. The services are keyed by the API version, a
// date such as 2011-01-01, that every form has: one endpoint serves them all. Example:
//
//	Action=SetDesiredCapacity&Version=2011-01-01&AutoScalingGroupName=workers&DesiredCapacity=3
//
// is answered with
//
//	<SetDesiredCapacityResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">
//	  <SetDesiredCapacityResult></SetDesiredCapacityResult>
//	  <ResponseMetadata><RequestId>fleet</RequestId></ResponseMetadata>
//	</SetDesiredCapacityResponse>
func ServeQuery(ctx context.Context, services map[string]QueryService, w http.ResponseWriter, body []byte) {
	form, err := url.ParseQuery(string(body))
	service := services[form.Get("Version")]
	action := form.Get("Action")
	var inner []byte
	if err == nil {
		inner, err = service.runAction(ctx, form)
	}
	if err != nil {
		e, status := AsAPIError(err)
		service.replyError(w, status, e)
		return
	}
	const metadata = "<ResponseMetadata><RequestId>fleet</RequestId></ResponseMetadata>"
	answer := fmt.Appendf(nil, "<%[1]sResponse xmlns=%[2]q><%[1]sResult>%[3]s</%[1]sResult>%[4]s</%[1]sResponse>",
		action, service.Namespace, inner, metadata)
	if service.Plain {
		answer = fmt.Appendf(nil, "<%[1]sResponse xmlns=%[2]q><requestId>fleet</requestId>%[3]s</%[1]sResponse>",
			action, service.Namespace, inner)
	}
	WriteReply(w, http.StatusOK, "text/xml", answer)
}

// runAction returns the XML within the result element: EncodeElement writes the struct's members
// inside an element r, which is cut off again.
func (s QueryService) runAction(ctx context.Context, form url.Values) ([]byte, error) {
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

// replyError writes an error in the service's own form. In both the SDKs read Code and Message.
func (s QueryService) replyError(w http.ResponseWriter, status int, e *cluster.Error) {
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
	WriteReply(w, status, "text/xml", text)
}

// StrictAction is the action of a function that takes the parameters as a struct, by the rules of
// [DecodeTree]. It refuses a parameter that is no field of the struct: a fleet that ignores what a
// tool asks for would be a wrong rehearsal of AWS. Only the first part of a parameter's name is
// looked at, and the second too for fields with the tag `protocol:"strict"`.
func StrictAction[I any](do func(ctx context.Context, in *I) (any, error)) Action {
	return newAction(do, true)
}

// LenientAction is [StrictAction] without the refusal of parameters that have no effect.
func LenientAction[I any](do func(ctx context.Context, in *I) (any, error)) Action {
	return newAction(do, false)
}

func newAction[I any](do func(ctx context.Context, in *I) (any, error), strict bool) Action {
	return func(ctx context.Context, form url.Values) (any, error) {
		in := new(I)
		if strict {
			if err := refuseUnknown(form, reflect.TypeFor[I]()); err != nil {
				return nil, err
			}
		}
		tree, err := TreeFromForm(form)
		if err == nil {
			err = DecodeTree(tree, in)
		}
		if err != nil {
			return nil, err
		}
		return do(ctx, in)
	}
}

// refuseUnknown returns an error if the form has a parameter that in has no field for.
func refuseUnknown(form url.Values, in reflect.Type) error {
	for _, key := range slices.Sorted(maps.Keys(form)) {
		name, below, _ := strings.Cut(key, ".")
		if name == "Action" || name == "Version" {
			continue
		}
		field, known := in.FieldByName(name)
		if !known {
			return cluster.Errorf("ValidationError", "The simulated AWS does not know the parameter %.128s of %.128s",
				key, form.Get("Action"))
		}
		if field.Tag.Get("protocol") == "strict" && below != "" {
			name, _, _ := strings.Cut(below, ".")
			if _, known := field.Type.Elem().FieldByName(name); !known {
				return UnknownParameter(key)
			}
		}
	}
	return nil
}

// UnknownParameter is the error of a parameter that would have no effect.
func UnknownParameter(key string) error {
	return cluster.Errorf("ValidationError", "The simulated AWS does not know the parameter %.128s", key)
}

// PageOf returns a page of size items, of at most most, and the token of the next page, "" after
// the last. A token is the position of its page's first item.
func PageOf[T any](items []T, token string, size, most int) (page []T, next string, err error) {
	if size < 1 || size > most {
		return nil, "", cluster.Errorf("ValidationError", "The number of records is %d, and must be between 1 and %d",
			size, most)
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

// FormatXMLTime returns a time as these APIs write it, or "" for the zero time.
func FormatXMLTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
