package awsapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/awsapi/outcome"
	"berth/shared/cluster"
)

// target prefixes an operation's name in the ECS protocol.
const target = "AmazonEC2ContainerServiceV20141113."

// maxAnswer is how long an answer may be: as long as a function URL's (Lambda quotas).
const maxAnswer = 6 << 20

// Forwarder passes operations on to ECS as they came. Berth need not understand what it leaves to
// ECS, so that new members work without a new version. It never repeats a call: the client does.
type Forwarder struct {
	// Client has the endpoint, the Region and the credentials.
	Client *ecs.Client
	// Now is the clock for signatures; nil is the machine's.
	Now func() time.Time
}

// Forward posts the body of one operation (ListClusters, ...) in JSON 1.1, and returns ECS's
// answer, errors of the API included, as status and body. The error is cluster.ErrAmbiguous if ECS
// may have carried out the operation without an answer.
func (f *Forwarder) Forward(ctx context.Context, operation string, body []byte) (status int, answer []byte, err error) {
	r, err := f.signedRequest(ctx, operation, body)
	if err != nil {
		return 0, nil, fmt.Errorf("forwarding %s: %w", operation, err)
	}
	options := f.Client.Options()
	resp, err := options.HTTPClient.Do(r)
	if outcome.IsUnsent(err) {
		return 0, nil, fmt.Errorf("forwarding %s: %w", operation, err)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("forwarding %s: %w: %w", operation, cluster.ErrAmbiguous, err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("forwarding %s: %w: %w", operation, cluster.ErrAmbiguous, err)
	}
	return resp.StatusCode, answer, nil
}

// signedRequest returns the call, addressed and signed as the SDK would do it: AWS_ENDPOINT_URL_ECS
// and the Region's endpoint are respected.
func (f *Forwarder) signedRequest(ctx context.Context, operation string, body []byte) (*http.Request, error) {
	o := f.Client.Options()
	endpoint, err := o.EndpointResolverV2.ResolveEndpoint(ctx, ecs.EndpointParameters{
		Region: aws.String(o.Region), Endpoint: o.BaseEndpoint,
		UseFIPS:      aws.Bool(o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
		UseDualStack: aws.Bool(o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
	})
	if err != nil {
		return nil, fmt.Errorf("finding its endpoint: %w", err)
	}
	return newSignedPost(ctx, signedPost{Endpoint: endpoint.URI.String(), Service: "ecs", Region: o.Region, Body: body,
		Header:      http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {target + operation}},
		Credentials: o.Credentials, Now: f.Now})
}
