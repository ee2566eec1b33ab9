package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	configapi "github.com/ray-project/kuberay/ray-operator/apis/config/v1alpha1"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/batchscheduler"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils/dashboardclient"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// runRay runs KubeRay's controllers of RayClusters and RayJobs.
func runRay() {
	// A Pod of the bed has one container, and no probes.
	must(os.Setenv("ENABLE_INIT_CONTAINER_INJECTION", "false"))
	must(os.Setenv("ENABLE_PROBES_INJECTION", "false"))
	ctx := ctrl.SetupSignalHandler()
	manager := newManager(ctrl.Options{}, rayv1.AddToScheme)
	none := configapi.Configuration{}
	scheduler, err := batchscheduler.NewSchedulerManager(
		ctx, none, manager.GetConfig(), manager.GetClient())
	must(err)
	clusters := ray.RayClusterReconcilerOptions{BatchSchedulerManager: scheduler}
	must(ray.NewReconciler(ctx, manager, clusters).SetupWithManager(manager, 5))
	jobs := ray.RayJobReconcilerOptions{BatchSchedulerManager: scheduler}
	must(ray.NewRayJobReconciler(ctx, manager, jobs, dashboards{}).SetupWithManager(manager, 5))
	must(manager.Start(ctx))
}

// dashboards finds the dashboard of a Ray cluster at the address of its head's Pod: the bed has no
// Services, and no names of them.
type dashboards struct{}

func (dashboards) GetDashboardClient(
	_ context.Context, manager ctrl.Manager,
) func(*rayv1.RayCluster, string) (dashboardclient.RayDashboardClientInterface, error) {
	return func(
		cluster *rayv1.RayCluster, url string,
	) (dashboardclient.RayDashboardClientInterface, error) {
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			service, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			head, err := addressOfHead(ctx, manager.GetClient(), service)
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(head, port))
		}
		found := &dashboardclient.RayDashboardClient{}
		found.InitClient(&http.Client{
			Timeout:   2 * time.Second,
			Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		}, "http://"+url, "")
		return found, nil
	}
}

func (dashboards) GetHttpProxyClient(
	manager ctrl.Manager,
) func(string, string, string, int) utils.RayHttpProxyClientInterface {
	return utils.GetRayHttpProxyClientFunc(manager, false)
}

// addressOfHead returns the address of the Pod behind CLUSTER-head-svc.NAMESPACE.svc....
func addressOfHead(ctx context.Context, pods client.Client, service string) (string, error) {
	name, rest, _ := strings.Cut(service, ".")
	namespace, _, _ := strings.Cut(rest, ".")
	found := &corev1.Service{}
	if err := pods.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found); err != nil {
		return "", err
	}
	listed := &corev1.PodList{}
	err := pods.List(ctx, listed,
		client.InNamespace(namespace), client.MatchingLabels(found.Spec.Selector))
	if err != nil {
		return "", err
	}
	for _, pod := range listed.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" {
			return pod.Status.PodIP, nil
		}
	}
	return "", fmt.Errorf("no Pod runs behind %s", service)
}
