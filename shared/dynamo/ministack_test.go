package dynamo_test

import (
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"berth/shared/awsapi"
	"berth/shared/dynamo"
	"berth/shared/porttest"
	"berth/shared/state"
	"berth/tests/ministack"
)

// second is MiniStack, another emulator of DynamoDB. The first test that needs it starts it.
var second struct {
	once   sync.Once
	server *ministack.Server
	client *dynamodb.Client
	err    error
}

// openSecond returns a state in a new table of MiniStack. It skips the test if MiniStack is not
// installed. MiniStack passes the whole suite; it reports wrong costs of reads, so
// [TestUsageCountsUnits] runs on DynamoDB Local only.
func openSecond(t *testing.T) *dynamo.State {
	t.Helper()
	if why := ministack.WhyUnavailable(); why != "" {
		t.Skip(why)
	}
	second.once.Do(func() {
		if second.server, second.err = ministack.Start(t.Context(), ministack.Options{}); second.err != nil {
			return
		}
		second.client = dynamodb.New(dynamodb.Options{
			Region: ministack.Region, BaseEndpoint: &second.server.Endpoint,
			Credentials: credentials.NewStaticCredentialsProvider(ministack.AccessKey, ministack.SecretKey, ""),
			HTTPClient:  awsapi.HTTP{},
		})
	})
	if second.err != nil {
		t.Fatal(second.err)
	}
	// Calls have plenty of time, because a busy machine is not the table's fault.
	return &dynamo.State{Client: second.client, Table: table(t, second.client), Timeout: time.Minute}
}

func TestStateOnMiniStack(t *testing.T) {
	porttest.TestStore(t, func(t *testing.T) state.Store {
		t.Parallel()
		return openSecond(t)
	})
}

func TestStreamOnMiniStack(t *testing.T) {
	porttest.TestStream(t, func(t *testing.T) porttest.StreamState {
		t.Parallel()
		return streamState{openSecond(t)}
	})
}
