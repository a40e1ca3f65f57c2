package wire_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"berth/shared/awsapi"
	"berth/tests/servicemodel"
)

var noon = time.Date(2026, 11, 4, 12, 0, 0, 123_000_000, time.UTC)

// models returns botocore's models: every request of the tests of this package, and every answer,
// is checked against them.
func models(t *testing.T) *servicemodel.Models { return servicemodel.ForTests(t, "../..") }

// client returns the SDK's client, which calls m over loopback.
func client(t *testing.T, m http.Handler) *ecs.Client {
	t.Helper()
	server := httptest.NewServer(models(t).Check(t, m))
	// Each request has its own connection: other tests' servers close idle ones.
	server.Client().Transport.(*http.Transport).DisableKeepAlives = true
	t.Cleanup(server.Close)
	return ecs.New(ecs.Options{
		BaseEndpoint: &server.URL, Region: "eu-west-1", HTTPClient: awsapi.HTTP{Client: server.Client()}, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
	})
}

var unexported = cmp.Options{
	cmpopts.IgnoreFields(ecs.DescribeServicesOutput{}, "ResultMetadata"), cmpopts.IgnoreFields(ecs.DescribeTasksOutput{}, "ResultMetadata"),
	cmpopts.IgnoreFields(ecs.DescribeContainerInstancesOutput{}, "ResultMetadata"),
	cmpopts.IgnoreFields(ecs.DescribeTaskDefinitionOutput{}, "ResultMetadata"), cmpopts.IgnoreFields(ecs.RunTaskOutput{}, "ResultMetadata"),
	cmpopts.EquateEmpty(), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore()),
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, unexported); diff != "" {
		t.Errorf("%s: -want +got\n%s", what, diff)
	}
}
