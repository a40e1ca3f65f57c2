package awsapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/awsapi"
)

// lateReader is a transport that answers before it has seen the end of the request's body, and
// whose answer cannot be read if it never sees that end. net/http's transport is like that if the
// service is faster than it.
type lateReader struct{}

func (lateReader) Do(r *http.Request) (*http.Response, error) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(r.Body, first); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}}, Request: r,
		Body: &lateBody{request: r},
	}, nil
}

type lateBody struct {
	request *http.Request
	read    bool
}

func (b *lateBody) Read(p []byte) (int, error) {
	if b.read {
		return 0, io.EOF
	}
	b.read = true
	rest, err := io.ReadAll(b.request.Body)
	if err == nil && int64(len(rest))+1 != b.request.ContentLength {
		err = errors.New("use of closed network connection")
	}
	if err != nil {
		return 0, err
	}
	return copy(p, `{"clusterArns":["a"]}`), nil
}

func (*lateBody) Close() error { return nil }

func TestAnswersSurviveTheEndOfTheRequest(t *testing.T) {
	for _, c := range []struct {
		name string
		http ecs.HTTPClient
		ok   bool
	}{{"BySDKAlone", lateReader{}, false}, {"ByHTTP", awsapi.HTTP{Client: lateReader{}}, true}} {
		t.Run(c.name, func(t *testing.T) {
			client := ecs.New(ecs.Options{Region: "eu-central-1", HTTPClient: c.http, Credentials: testCredentials,
				RetryMaxAttempts: 1})
			out, err := client.ListClusters(context.Background(), &ecs.ListClustersInput{NextToken: new("more")})
			if ok := err == nil && fmt.Sprint(out.ClusterArns) == "[a]"; ok != c.ok {
				t.Errorf("ListClusters = %+v, %v", out, err)
			}
		})
	}
}
