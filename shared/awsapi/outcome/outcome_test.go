package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"berth/shared/awsapi/outcome"
)

func answer(status int, code string) error {
	return &smithy.OperationError{Err: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
		Err:      &smithy.GenericAPIError{Code: code},
	}}
}

func TestErrorsAreSortedByOutcome(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	read := &net.OpError{Op: "read", Err: errors.New("reset")}
	for name, c := range map[string]struct {
		err                        error
		unknown, unsent, throttled bool
	}{
		"Success":           {err: nil},
		"Refused":           {err: answer(400, "InvalidParameterException")},
		"Throttled":         {err: answer(400, "ThrottlingException"), throttled: true},
		"ThrottledAs503":    {err: answer(503, "SlowDown"), throttled: true},
		"ServerError":       {err: answer(500, "ServerException"), unknown: true},
		"ConnectionRefused": {err: &smithyhttp.RequestSendError{Err: dial}, unsent: true},
		"NoSuchHost":        {err: &smithyhttp.RequestSendError{Err: &net.DNSError{}}, unsent: true},
		"ConnectionReset":   {err: &smithyhttp.RequestSendError{Err: read}, unknown: true},
		"AnswerUnreadable":  {err: &smithy.DeserializationError{Err: errors.New("EOF")}, unknown: true},
		"TimedOut": {err: fmt.Errorf("x: %w", &smithy.CanceledError{Err: context.DeadlineExceeded}),
			unknown: true},
		"NoCredentials": {err: &smithy.OperationError{Err: errors.New("no credentials")}},
	} {
		t.Run(name, func(t *testing.T) {
			if u, n, th := outcome.IsUnknown(c.err), outcome.IsUnsent(c.err),
				outcome.IsThrottled(c.err); u != c.unknown || n != c.unsent || th != c.throttled {
				t.Errorf("unknown %v, unsent %v, throttled %v; want %v, %v, %v", u, n, th, c.unknown, c.unsent,
					c.throttled)
			}
		})
	}
}
