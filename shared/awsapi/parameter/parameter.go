// Package parameter calls Systems Manager for parameters: those by which AWS publishes its images.
// It is apart from package awsapi because only one function needs that client. Errors are those of
// awsapi.CallError. Start at [Store.ReadParameters].
package parameter

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"berth/shared/awsapi"
)

// Store calls Systems Manager's Parameter Store.
type Store struct {
	Client *ssm.Client
}

// NewStore returns the store that a configuration of the SDK leads to.
func NewStore(c aws.Config) *Store { return &Store{Client: ssm.NewFromConfig(c)} }

// parameterBatch is how many parameters one call reads (Systems Manager API, GetParameters).
const parameterBatch = 10

// ReadParameters returns the values of those of the parameters named that exist.
func (s *Store) ReadParameters(ctx context.Context, names []string) (map[string]string, error) {
	values := map[string]string{}
	for batch := range slices.Chunk(names, parameterBatch) {
		found, err := s.Client.GetParameters(ctx, &ssm.GetParametersInput{Names: batch})
		if err != nil {
			return nil, awsapi.WrapCallError(err, "reading parameters %v", batch)
		}
		for _, p := range found.Parameters {
			values[aws.ToString(p.Name)] = aws.ToString(p.Value)
		}
	}
	return values, nil
}
