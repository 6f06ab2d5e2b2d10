// Threads, exceptions in them, and futures of the C++ library.
//@ with: -pthread
//@ stops: a second thread
#include <cstdio>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

int main()
{
    std::vector<std::thread> threads;
    std::vector<int> squares(6);
    for (int i = 0; i < 6; i++)
    {
        threads.emplace_back([&squares, i] {
            try
            {
                throw std::runtime_error(std::to_string(i));
            }
            catch (const std::exception &error)
            {
                squares[i] = std::stoi(error.what()) * i;
            }
        });
    }
    for (auto &thread : threads)
        thread.join();
    int sum = 0;
    for (int square : squares)
        sum += square;
    printf("%d %d\n", sum, std::async(std::launch::async, [] { return 7; }).get());
}
