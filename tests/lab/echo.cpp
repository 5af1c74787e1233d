// A server of Boost.Asio with four threads, and a client: an echo for each of ten connections.
#include <boost/asio.hpp>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>

namespace asio = boost::asio;
using asio::ip::tcp;

struct Session : std::enable_shared_from_this<Session> {
	tcp::socket socket;
	char bytes[1024];
	explicit Session(tcp::socket taken) : socket(std::move(taken)) {}
	void go()
	{
		auto self = shared_from_this();
		socket.async_read_some(asio::buffer(bytes), [self](auto error, size_t count) {
			if (error)
				return;
			asio::async_write(self->socket, asio::buffer(self->bytes, count), [self](auto error, size_t) {
				if (!error)
					self->go();
			});
		});
	}
};

static void ask(asio::io_context &context)
{
	std::this_thread::sleep_for(std::chrono::seconds(2));
	tcp::resolver resolver(context);
	for (int i = 0; i < 10; i++) {
		tcp::socket socket(context);
		asio::connect(socket, resolver.resolve("server", "80"));
		std::string said = "echo " + std::to_string(i), heard(said.size(), 0);
		asio::write(socket, asio::buffer(said));
		asio::read(socket, asio::buffer(heard));
		std::cout << heard << "\n";
	}
}

int main(int count, char **)
{
	asio::io_context context;
	if (count > 1) {
		ask(context);
		return 0;
	}
	tcp::acceptor acceptor(context, {tcp::v4(), 80});
	std::function<void()> accept = [&] {
		acceptor.async_accept([&](auto error, tcp::socket socket) {
			if (!error)
				std::make_shared<Session>(std::move(socket))->go();
			accept();
		});
	};
	accept();
	std::thread others[3];
	for (auto &one : others)
		one = std::thread([&] { context.run(); });
	context.run();
}
