#include "router/forward/forwarder.h"

#include <utility>

#include "router/forward/stream.h"

namespace qanat::router {

std::shared_ptr<ForwardedStream> Forwarder::Start(ForwardRequest request, std::shared_ptr<StreamSink> sink) {
  auto stream = std::make_shared<Stream>(Stream::Parts{cluster_, policy_, clock_, metrics_, hash_key_},
                                         std::move(request), std::move(sink));
  stream->Begin();
  return stream;
}

}  // namespace qanat::router
