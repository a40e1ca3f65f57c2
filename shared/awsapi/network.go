package awsapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/cluster"
)

// Networks looks subnets and security groups up at EC2. It speaks EC2's Query protocol itself: all
// that it needs is whether EC2 refuses an id, and the SDK's client of EC2 would make the function
// api larger than it may be.
type Networks struct {
	// Config has the Region, the credentials, the HTTP client and the endpoints.
	Config aws.Config
	// Now is the clock for signatures; nil is the machine's.
	Now func() time.Time
}

const (
	// networkTimeout bounds one look-up: the caller of the API waits for it.
	networkTimeout = 3 * time.Second
	// maxNetworkAnswer bounds what is read of an answer. The error is at its beginning.
	maxNetworkAnswer = 64 << 10
)

// CheckSubnets returns EC2's error, as *cluster.Error, if one of the subnets does not exist.
func (n *Networks) CheckSubnets(ctx context.Context, ids []string) error {
	return n.describe(ctx, "DescribeSubnets", "SubnetId", ids)
}

// CheckSecurityGroups returns EC2's error, as *cluster.Error, if one of the groups does not exist.
func (n *Networks) CheckSecurityGroups(ctx context.Context, ids []string) error {
	return n.describe(ctx, "DescribeSecurityGroups", "GroupId", ids)
}

// describe calls an operation that describes the resources named, and returns its error.
func (n *Networks) describe(ctx context.Context, operation, list string, ids []string) error {
	form := url.Values{"Action": {operation}, "Version": {"2016-11-15"}}
	for at, id := range ids {
		form.Set(list+"."+strconv.Itoa(at+1), id)
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	status, answer, err := n.post(ctx, []byte(form.Encode()))
	if err != nil {
		return fmt.Errorf("asking EC2 for %s: %w", operation, err)
	}
	if status == http.StatusOK {
		return nil
	}
	code, message := textBetween(answer, "<Code>", "</Code>"), textBetween(answer, "<Message>", "</Message>")
	if code == "" {
		return fmt.Errorf("EC2 answered %s with status %d: %.200q", operation, status, answer)
	}
	return cluster.Errorf(cluster.Code(code), "%s", message)
}

func (n *Networks) post(ctx context.Context, body []byte) (status int, answer string, err error) {
	endpoint, err := n.endpoint(ctx)
	if err != nil {
		return 0, "", fmt.Errorf("finding its endpoint: %w", err)
	}
	r, err := newSignedPost(ctx, signedPost{Endpoint: endpoint, Service: "ec2", Region: n.Config.Region, Body: body,
		Header:      http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}},
		Credentials: n.Config.Credentials, Now: n.Now})
	if err != nil {
		return 0, "", err
	}
	resp, err := n.Config.HTTPClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxNetworkAnswer))
	return resp.StatusCode, string(read), err
}

// endpoint returns EC2's address as the SDK finds it: AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL, or
// the Region's. EC2's name differs from that of ECS in the service alone, in all partitions.
func (n *Networks) endpoint(ctx context.Context) (string, error) {
	for _, source := range n.Config.ConfigSources {
		s, ok := source.(interface {
			GetServiceBaseEndpoint(context.Context, string) (string, bool, error)
		})
		if !ok {
			continue
		}
		if address, found, err := s.GetServiceBaseEndpoint(ctx, "EC2"); err != nil || found {
			return address, err
		}
	}
	if n.Config.BaseEndpoint != nil {
		return *n.Config.BaseEndpoint, nil
	}
	resolved, err := ecs.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
		ecs.EndpointParameters{Region: &n.Config.Region})
	if err != nil {
		return "", err
	}
	return strings.Replace(resolved.URI.String(), "//ecs.", "//ec2.", 1), nil
}

// entities undoes what XML escapes in text.
var entities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#34;", `"`, "&apos;", "'", "&#39;", "'",
	"&amp;", "&")

// textBetween returns the text of the first element of an answer in XML, empty if there is none.
func textBetween(answer, before, after string) string {
	_, rest, _ := strings.Cut(answer, before)
	text, _, found := strings.Cut(rest, after)
	if !found {
		return ""
	}
	return entities.Replace(text)
}
